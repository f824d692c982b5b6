import asyncio
import logging

import pytest
from aiohttp import web

from sandgauge_poller.logs import RepeatsCounted
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.opensandbox.daemon import DIRECT_AGAIN_S
from sandgauge_schemas.names import ErrorType
from support.hand_clock import HandClock
from support.stub_control_plane import (
    ID,
    IMPATIENT_S,
    METRICS,
    OTHER,
    StubControlPlane,
    StubDaemon,
    endpoint,
    opened,
    proxied,
    sandbox,
)


class Hours:
    """The real clock, which a test can set forward."""

    def __init__(self) -> None:
        self.ahead = 0.0
        real = Clock()
        self.clock = Clock(monotonic=lambda: real.monotonic() + self.ahead)


@pytest.fixture
async def control_plane():
    async with StubControlPlane() as server:
        yield server


@pytest.fixture
async def daemon(control_plane):
    async with StubDaemon() as server:
        control_plane.names(server.endpoint)
        yield server


@pytest.fixture(params=["auto", "false"])
def direct(request):
    """Both settings under which a daemon is read directly."""
    return {"use_server_proxy": request.param}


async def outcome(provider, sandbox_id: str = ID) -> ErrorType | None:
    reading = await provider.read_sample(sandbox_id)
    assert (reading.usage is None) == (reading.error_type is not None)
    return reading.error_type


async def hang(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


async def break_off(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def test_one_answer_of_the_control_plane_serves_as_long_as_the_connection_lives(control_plane, daemon, direct):
    async with opened(control_plane, **direct) as provider:
        assert [await outcome(provider) for _ in range(5)] == [None] * 5
    assert control_plane.paths == [endpoint()]
    assert daemon.paths == ["/metrics"] * 5
    assert len({request.connection for request in daemon.seen}) == 1


async def test_the_key_never_goes_to_a_daemon_and_its_headers_go_nowhere_else(control_plane, daemon, direct):
    control_plane.names(daemon.endpoint, headers={"OpenSandbox-Secure-Access": "t0ken"})
    async with opened(control_plane, **direct) as provider:
        assert await outcome(provider) is None
        await provider.read_status(ID)
    received = daemon.seen[0].headers
    assert received["OpenSandbox-Secure-Access"] == "t0ken"
    assert received["OpenSandbox-Access-Renew"] == "skip"
    assert "OPEN-SANDBOX-API-KEY" not in received
    assert all("OpenSandbox-Secure-Access" not in request.headers for request in control_plane.seen)


async def test_a_new_connection_needs_a_fresh_answer(control_plane, daemon, direct):
    async def last_answer(_request: web.Request) -> web.StreamResponse:
        response = web.json_response(METRICS)
        response.force_close()
        return response

    daemon.on("/metrics", last_answer)
    async with opened(control_plane, **direct) as provider:
        assert [await outcome(provider) for _ in range(3)] == [None] * 3
    assert control_plane.paths == [endpoint()] * 3
    assert len({request.connection for request in daemon.seen}) == 3


async def test_a_moved_daemon_is_found_again_when_its_connection_is_gone(control_plane, daemon, direct):
    async with opened(control_plane, **direct) as provider, StubDaemon({"cpu_count": 7}) as moved:
        assert await outcome(provider) is None
        await daemon.stop()
        await daemon.start()
        control_plane.names(moved.endpoint)
        reading = await provider.read_sample(ID)
        assert reading.usage is not None
        assert reading.usage.cpu_count == 7
    assert len(daemon.seen) == 1


async def test_a_kept_connection_that_breaks_is_not_replaced_unawares(control_plane, daemon):
    """The library would send the request again to the old address, where another sandbox may be by now."""
    async with opened(control_plane, use_server_proxy="false") as provider:
        assert await outcome(provider) is None
        daemon.on("/metrics", break_off)
        assert await outcome(provider) is ErrorType.CONNECTION
        assert len(daemon.seen) == 2
        assert control_plane.paths == [endpoint()]


@pytest.mark.parametrize(
    ("failure", "state", "error_type"),
    [
        (break_off, "Paused", ErrorType.PAUSED),
        (break_off, "Stopping", ErrorType.ENDED),
        (break_off, "Terminated", ErrorType.ENDED),
        (break_off, "Failed", ErrorType.ENDED),
        (break_off, None, ErrorType.NOT_FOUND),
        (hang, "Terminated", ErrorType.ENDED),
        (hang, None, ErrorType.NOT_FOUND),
    ],
)
async def test_after_a_failure_the_control_plane_decides_before_the_next_direct_read(
    control_plane, daemon, failure, state, error_type
):
    daemon.on("/metrics", failure)
    async with opened(control_plane, timeout_s=IMPATIENT_S, use_server_proxy="false") as provider:
        assert await outcome(provider) in {ErrorType.CONNECTION, ErrorType.TIMEOUT}
        asked = len(daemon.seen)
        control_plane.say(sandbox(), status=404, json={"code": "DOCKER::SANDBOX_NOT_FOUND"})
        if state is not None:
            control_plane.has_sandbox(state)
        assert [await outcome(provider), await outcome(provider)] == [error_type] * 2
        assert len(daemon.seen) == asked
        assert control_plane.paths == [endpoint(), sandbox(), sandbox()]

        daemon.on("/metrics", lambda _request: asyncio.sleep(0, web.json_response(METRICS)))
        control_plane.has_sandbox("Running")
        assert await outcome(provider) is None
        assert control_plane.paths[3:] == [sandbox(), endpoint()]
        assert await outcome(provider) is None
        assert len(control_plane.paths) == 5


@pytest.mark.parametrize("status", [401, 404, 500, 302])
async def test_an_error_of_the_daemon_is_a_failure_too(control_plane, daemon, status):
    daemon.say("/metrics", status=status, text="x")
    async with opened(control_plane, use_server_proxy="false") as provider:
        assert await outcome(provider) is not None
        control_plane.say(sandbox(), status=500, text="")
        assert await outcome(provider) is ErrorType.HTTP_ERROR
        assert len(daemon.seen) == 1

        # Its connection is open, and yet the next read goes where the control plane says now.
        async with StubDaemon() as moved:
            control_plane.has_sandbox("Running")
            control_plane.names(moved.endpoint)
            assert await outcome(provider) is None
    assert len(daemon.seen) == 1


async def test_an_address_that_passes_to_another_sandbox_is_read_for_that_one_alone(control_plane, daemon, direct):
    control_plane.has_sandbox("Running", OTHER)
    control_plane.names(daemon.endpoint, OTHER)
    async with opened(control_plane, **direct) as provider:
        assert await outcome(provider) is None
        assert await outcome(provider, OTHER) is None
        control_plane.say(sandbox(), status=404, json={"code": "KUBERNETES::SANDBOX_NOT_FOUND"})
        asked = len(daemon.seen)
        assert await outcome(provider) is ErrorType.NOT_FOUND
        assert len(daemon.seen) == asked
        assert await outcome(provider, OTHER) is None

        # It is still there after all, at another address: the kept connection is the other's.
        async with StubDaemon({"cpu_count": 7}) as moved:
            control_plane.has_sandbox("Running")
            control_plane.names(moved.endpoint)
            reading = await provider.read_sample(ID)
        assert reading.usage is not None
        assert reading.usage.cpu_count == 7


async def test_a_forgotten_sandbox_is_asked_for_anew(control_plane, daemon, direct):
    async with opened(control_plane, **direct) as provider:
        assert await outcome(provider) is None
        provider.forget(ID)
        provider.forget(ID)
        assert await outcome(provider) is None
    assert control_plane.paths == [endpoint()] * 2


async def test_a_sandbox_forgotten_in_mid_read_leaves_nothing_behind(control_plane, daemon, direct):
    daemon.on("/metrics", hang)
    async with opened(control_plane, timeout_s=IMPATIENT_S, **direct) as provider:
        reading = asyncio.create_task(outcome(provider))
        await daemon.asked("/metrics")
        provider.forget(ID)
        assert await reading is ErrorType.TIMEOUT
        routes = provider._daemon._routes
        assert (len(routes._routes), len(routes._owners)) == (0, 0)


async def test_a_sandbox_forgotten_while_its_endpoint_is_asked_for_counts_no_more(control_plane):
    answer = asyncio.Event()

    async def late(_request: web.Request) -> web.StreamResponse:
        await answer.wait()
        return web.json_response({"endpoint": "192.0.2.1:44772"})

    control_plane.on(endpoint(), late)
    async with opened(control_plane) as provider:
        reading = asyncio.create_task(outcome(provider))
        await control_plane.asked(endpoint())
        provider.forget(ID)
        answer.set()
        assert await reading is None
        provider._daemon._routes.of(OTHER)
        assert provider.read_slots() is None


async def test_the_wait_of_a_direct_read_includes_what_was_asked_before_it(control_plane, daemon, direct):
    hand = HandClock()

    async def slow(_request: web.Request) -> web.StreamResponse:
        hand.now_s += 0.15
        return web.json_response({"endpoint": daemon.endpoint})

    async def quick(_request: web.Request) -> web.StreamResponse:
        hand.now_s += 0.05
        return web.json_response(METRICS)

    control_plane.on(endpoint(), slow)
    daemon.on("/metrics", quick)
    async with opened(control_plane, clock=hand.clock, **direct) as provider:
        windows = [(await provider.read_sample(ID)).window for _ in range(2)]
    assert [window.wait_s for window in windows] == pytest.approx([0.15, 0.0])
    assert [(window.end_ns - window.start_ns) / 1e9 for window in windows] == pytest.approx([0.05, 0.05])


async def test_without_a_proxy_a_host_that_is_not_allowed_is_an_outcome_and_said_once(control_plane, caplog):
    caplog.set_level(logging.WARNING, logger="sandgauge_poller.reading")
    control_plane.names("192.0.2.1:44772")
    async with opened(control_plane, use_server_proxy="false") as provider:
        assert [await outcome(provider) for _ in range(3)] == [ErrorType.ENDPOINT_NOT_ALLOWED] * 3
        control_plane.names("http://user:pass@127.0.0.1/")
        assert await outcome(provider) is ErrorType.ENDPOINT_NOT_ALLOWED
        control_plane.names(f"127.0.0.1:{control_plane.port}/v1/sandboxes/{ID}/proxy/44772")
        assert await outcome(provider) is ErrorType.ENDPOINT_NOT_ALLOWED
        control_plane.say(endpoint(), text="127.0.0.1:44772")
        assert await outcome(provider) is ErrorType.UNRECOGNIZED_FORMAT
    assert set(control_plane.paths) == {endpoint()}
    kept = RepeatsCounted()
    assert len([record for record in caplog.records if kept.filter(record)]) == 1
    assert "192.0.2.1" in caplog.text
    assert "allowed_endpoint_hosts" in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        {"json": {"endpoint": "192.0.2.1:44772"}},
        {"json": {"endpoint": "http://127.0.0.1/"}},
        {"json": {"endpoint": f"osb.example.net/v1/sandboxes/{ID}/proxy/44772"}},
        {"text": "127.0.0.1:44772"},
    ],
)
async def test_auto_takes_the_proxy_for_good_where_nothing_may_be_called_directly(control_plane, answer):
    control_plane.say(endpoint(), **answer)
    async with opened(control_plane) as provider:
        assert provider.read_slots() is None
        assert [await outcome(provider) for _ in range(3)] == [None] * 3
        assert control_plane.paths == [endpoint(), *[proxied()] * 3]
        assert provider.read_slots() == 16
        provider.forget(ID)
        assert provider.read_slots() is None


async def test_slots_are_told_by_the_part_of_the_sandboxes_that_needs_them(control_plane, daemon):
    control_plane.names("192.0.2.1:44772", OTHER)
    control_plane.say(proxied(OTHER), json=METRICS)
    async with opened(control_plane, max_concurrent_proxied_reads=4) as provider:
        await outcome(provider)
        await outcome(provider, OTHER)
        assert provider.read_slots() == 8
    async with opened(control_plane, use_server_proxy="true", max_concurrent_proxied_reads=4) as provider:
        assert provider.read_slots() == 4
    async with opened(control_plane, use_server_proxy="false") as provider:
        assert provider.read_slots() is None


async def test_auto_takes_the_proxy_while_a_daemon_does_not_answer_directly(control_plane, daemon):
    hours = Hours()
    daemon.on("/metrics", break_off)
    async with opened(control_plane, clock=hours.clock) as provider:
        assert await outcome(provider) is ErrorType.CONNECTION
        assert [await outcome(provider), await outcome(provider)] == [None, None]
        assert control_plane.paths == [endpoint(), proxied(), proxied()]
        assert provider.read_slots() is None

        hours.ahead = DIRECT_AGAIN_S
        daemon.say("/metrics", json=METRICS)
        assert await outcome(provider) is None
        assert await outcome(provider) is None
        assert control_plane.paths[3:] == [sandbox(), endpoint()]
    assert daemon.paths[-2:] == ["/metrics"] * 2


async def test_auto_does_not_queue_for_the_proxy_when_direct_may_work_again(control_plane, daemon):
    control_plane.names("192.0.2.1:44772", OTHER)
    control_plane.on(proxied(OTHER), hang)
    daemon.on("/metrics", break_off)
    async with opened(control_plane, timeout_s=IMPATIENT_S, max_concurrent_proxied_reads=1) as provider:
        assert await outcome(provider) is ErrorType.CONNECTION
        daemon.say("/metrics", json=METRICS)
        holds_the_slot = asyncio.create_task(outcome(provider, OTHER))
        await control_plane.asked(proxied(OTHER))
        assert await outcome(provider) is None
        assert proxied() not in control_plane.paths
        assert await holds_the_slot is ErrorType.TIMEOUT


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"status": 500, "text": ""}, None),
        ({"status": 404, "json": {"detail": "Not Found"}}, None),
        ({"status": 404, "json": {"code": "KUBERNETES::POD_IP_NOT_AVAILABLE"}}, None),
        ({"status": 404, "json": {"code": "DOCKER::SANDBOX_NOT_FOUND"}}, ErrorType.NOT_FOUND),
        ({"status": 401, "json": {"code": "MISSING_API_KEY"}}, ErrorType.UNAUTHORIZED),
    ],
)
async def test_auto_without_an_endpoint_takes_the_proxy_unless_that_would_fail_too(control_plane, answer, expected):
    control_plane.say(endpoint(), **answer)
    async with opened(control_plane) as provider:
        assert await outcome(provider) is expected
    assert control_plane.paths == [endpoint(), *([] if expected else [proxied()])]
