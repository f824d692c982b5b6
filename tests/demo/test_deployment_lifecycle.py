"""What a reading meets when its sandbox is paused, deleted, killed or over, through the server and directly."""

import asyncio

import aiohttp
import pytest

from sandgauge_demo.deployment import Route, Runtime, SandboxChanges, SandboxSpec, SimulatedNode
from support.busy_machine import beside_timer

ID = "sb-1"


class Reader:
    """Reads one sandbox both ways."""

    def __init__(self, osb, http):
        self.osb = osb
        self.http = http

    async def start(self):
        self.osb.deployment.create(SandboxSpec(id=ID))
        self.proxied = f"{self.osb.url}/v1/sandboxes/{ID}/proxy/44772/metrics"
        async with self.http.get(f"{self.osb.url}/v1/sandboxes/{ID}/endpoints/44772") as answer:
            self.direct = f"http://{(await answer.json())['endpoint']}/metrics"
        return self

    async def read(self, url):
        async with self.http.get(url) as answer:
            body = await answer.json()
            return answer.status, body.get("code", "reading")

    async def in_flight(self, url, route):
        """Begin a reading and return it once it has arrived."""
        before = self.osb.journal.count(route, ID)
        reading = asyncio.create_task(self.read(url))
        await self.osb.journal.wait_for(before + 1, route, ID, timeout_s=60)
        return reading


@pytest.fixture
async def reader(start_osb, http):
    return await Reader(await start_osb(), http).start()


@pytest.fixture
async def slow_reader(start_osb, http):
    return await Reader(await start_osb(metrics_delay_s=30.0), http).start()


async def unanswered(reading):
    done, _ = await asyncio.wait({reading}, timeout=0.1)
    return not done


async def test_a_reading_blocks_as_long_as_the_real_one(start_osb, http):
    reader = await Reader(await start_osb(metrics_delay_s=1.0), http).start()
    for url in (reader.proxied, reader.direct):
        answer, later_s = await beside_timer(1.0, reader.read(url))
        assert answer == (200, "reading")
        assert 0.0 <= later_s < 0.5


async def test_a_paused_container_accepts_and_never_answers_until_it_is_resumed(reader):
    reader.osb.deployment.pause(ID)
    readings = [
        await reader.in_flight(reader.proxied, Route.PROXY),
        await reader.in_flight(reader.direct, Route.EXECD),
    ]
    assert [await unanswered(reading) for reading in readings] == [True, True]
    reader.osb.deployment.resume(ID)
    assert await asyncio.gather(*readings) == [(200, "reading")] * 2


async def test_a_pause_in_mid_read_delays_the_answer_but_not_its_timestamp(start_osb, http):
    reader = await Reader(await start_osb(metrics_delay_s=0.3), http).start()
    reading = asyncio.create_task(http.get(reader.proxied))
    await reader.osb.journal.wait_for(1, Route.PROXY, ID, timeout_s=60)
    reader.osb.deployment.pause(ID)
    assert not (await asyncio.wait({reading}, timeout=0.5))[0]
    resumed_at = reader.osb.deployment.clock()
    reader.osb.deployment.resume(ID)
    async with await reading as answer:
        assert (await answer.json())["timestamp"] / 1000 < resumed_at


async def test_a_deleted_sandbox_is_gone_everywhere_at_once(reader, http):
    async with http.delete(f"{reader.osb.url}/v1/sandboxes/{ID}") as answer:
        assert answer.status == 204
    assert await reader.read(reader.proxied) == (404, "DOCKER::SANDBOX_NOT_FOUND")
    with pytest.raises(aiohttp.ClientConnectionError):
        await reader.read(reader.direct)
    fresh = aiohttp.ClientSession()
    async with fresh:
        with pytest.raises(aiohttp.ClientConnectorError):
            await fresh.get(reader.direct)


@pytest.mark.parametrize("how", ["delete", "kill_execd", "end"])
async def test_an_end_in_mid_read_breaks_it(slow_reader, how):
    osb = slow_reader.osb
    proxied = await slow_reader.in_flight(slow_reader.proxied, Route.PROXY)
    direct = await slow_reader.in_flight(slow_reader.direct, Route.EXECD)
    match how:
        case "delete":
            osb.deployment.delete(ID)
        case "kill_execd":
            osb.deployment.change(ID, SandboxChanges(execd_alive=False))
        case "end":
            osb.deployment.end(ID, exit_code=137, oom_killed=True)
    assert await proxied == (502, "BACKEND_RESPONSE_FAILED")
    with pytest.raises(aiohttp.ClientConnectionError):
        await direct


async def test_a_killed_execd_leaves_a_running_sandbox_that_nobody_can_read(reader, http):
    reader.osb.deployment.change(ID, SandboxChanges(execd_alive=False))
    assert await reader.read(reader.proxied) == (502, "BACKEND_CONNECTION_FAILED")
    with pytest.raises(aiohttp.ClientConnectionError):
        await reader.read(reader.direct)
    async with http.get(f"{reader.osb.url}/v1/sandboxes/{ID}") as answer:
        assert (await answer.json())["status"]["state"] == "Running"


async def test_an_ended_container_keeps_its_record_and_endpoint_but_refuses_connections(reader, http):
    reader.osb.deployment.end(ID)
    async with http.get(f"{reader.osb.url}/v1/sandboxes/{ID}") as answer:
        assert (await answer.json())["status"]["state"] == "Terminated"
    async with http.get(f"{reader.osb.url}/v1/sandboxes/{ID}/endpoints/44772") as answer:
        assert f"http://{(await answer.json())['endpoint']}/metrics" == reader.direct
    assert await reader.read(reader.proxied) == (500, "DOCKER::NETWORK_MODE_ENDPOINT_UNAVAILABLE")
    with pytest.raises(aiohttp.ClientConnectionError):
        await reader.read(reader.direct)


async def test_a_call_through_the_proxy_fails_when_no_connection_gets_free(start_osb, http):
    osb = await start_osb(proxy_pool_size=1, proxy_timeout_s=1.5)
    reader = await Reader(osb, http).start()
    await osb._proxy._pool.acquire()
    assert await reader.read(reader.proxied) == (500, "GENERAL::UNKNOWN_ERROR")
    osb._proxy._pool.release()
    assert await reader.read(reader.proxied) == (200, "reading")


async def test_a_call_holds_its_connection_until_the_sandbox_answers_or_the_server_gives_up(start_osb, http):
    osb = await start_osb(proxy_pool_size=1, proxy_timeout_s=0.2)
    reader = await Reader(osb, http).start()
    osb.deployment.pause(ID)
    assert await reader.read(reader.proxied) == (504, "BACKEND_TIMEOUT")


async def test_a_resumed_pod_is_another_one_on_another_node(start_osb, http):
    nodes = (SimulatedNode(name="node-1"), SimulatedNode(name="node-2"))
    osb = await start_osb(runtime=Runtime.KUBERNETES, nodes=nodes)
    reader = await Reader(osb, http).start()
    osb.deployment.pause(ID)
    assert await reader.read(reader.proxied) == (404, "KUBERNETES::POD_IP_NOT_AVAILABLE")
    osb.deployment.resume(ID)
    async with http.get(f"{osb.url}/v1/sandboxes/{ID}/diagnostics/inspect") as answer:
        assert "Node:           node-2" in await answer.text()
    assert await reader.read(reader.proxied) == (200, "reading")


async def test_a_halted_execd_accepts_and_answers_once_it_goes_on(reader):
    reader.osb.deployment.change(ID, SandboxChanges(execd_stopped=True))
    readings = [
        await reader.in_flight(reader.proxied, Route.PROXY),
        await reader.in_flight(reader.direct, Route.EXECD),
    ]
    for reading in readings:
        assert await unanswered(reading)
    reader.osb.deployment.change(ID, SandboxChanges(execd_stopped=False))
    assert [await reading for reading in readings] == [(200, "reading")] * 2


async def test_a_container_takes_its_kept_connections_along(reader):
    host, _, port = reader.direct.split("/")[2].partition(":")
    received, sent = await asyncio.open_connection(host, int(port))
    sent.write(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await received.readline() == b"HTTP/1.1 200 OK\r\n"
    reader.osb.deployment.delete(ID)
    async with asyncio.timeout(60):
        await received.read()  # to the end of the connection, which nobody asked for
    sent.close()


async def test_a_resumed_pod_is_another_one_and_a_restarted_container_is_counted(start_osb):
    osb = await start_osb(runtime=Runtime.KUBERNETES)
    before = osb.deployment.create(SandboxSpec(id=ID)).started_at
    osb.deployment.change(ID, SandboxChanges(restarts=2))
    assert osb.deployment.get(ID).started_at == before
    osb.deployment.pause(ID)
    osb.deployment.resume(ID)
    resumed = osb.deployment.get(ID)
    assert resumed.started_at > before
    assert resumed.restarts == 0


async def test_a_deletion_looks_like_a_failure_for_a_moment(reader):
    states = []
    reader.osb.deployment.subscribe(
        lambda _: states.append((found := reader.osb.deployment.find(ID)) and (found.state, found.exit_code))
    )
    async with reader.http.delete(f"{reader.osb.url}/v1/sandboxes/{ID}") as answer:
        assert answer.status == 204
    assert states == [("Failed", 137), ("Unknown", 137), None]
