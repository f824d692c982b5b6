"""The handle that tests steer a deployment with, in a thread and in another process, and the faults it sets."""

import asyncio
import os
import signal
import time

import pytest
import requests

from sandgauge_demo.deployment import API_KEY_HEADER, DeploymentSettings, Fault, Route, SandboxSpec
from sandgauge_demo.loopback import free_ports
from support.simulated_osb import SimulatedOsb, osb_in_process, osb_in_thread

KEY = "invented-key"


@pytest.fixture(params=["thread", "process"])
def osb(request):
    if request.param == "thread":
        with osb_in_thread(DeploymentSettings(api_key=KEY, metrics_delay_s=0.0)) as handle:
            yield handle
    else:
        with osb_in_process(["--metrics-delay", "0"], api_key=KEY) as process:
            yield process.osb


def get(osb: SimulatedOsb, path: str, timeout: float = 60.0) -> requests.Response:
    return requests.get(f"{osb.url}/v1/sandboxes/{path}", headers={API_KEY_HEADER: KEY}, timeout=timeout)


def test_sandboxes_are_created_changed_and_removed(osb):
    sandbox_id = osb.create(id="sb-1", limits={"cpu": "100m", "memory": "129M"}, usage=[(0, 0.5, 10.0)])
    assert sandbox_id == "sb-1"
    assert "  Memory:       123 MiB" in get(osb, "sb-1/diagnostics/inspect").text
    osb.change("sb-1", limits={"cpu": "2"}, execd_kind="guest")
    assert "  CPU:          2.00 cores" in get(osb, "sb-1/diagnostics/inspect").text
    assert get(osb, "sb-1/proxy/44772/metrics").json()["cpu_used_pct"] == 25
    osb.pause("sb-1")
    assert get(osb, "sb-1").json()["status"]["state"] == "Paused"
    osb.resume("sb-1")
    osb.kill_execd("sb-1")
    assert get(osb, "sb-1/proxy/44772/metrics").status_code == 502
    osb.end("sb-1", exit_code=137, oom_killed=True)
    assert "OOMKilled:      True" in get(osb, "sb-1/diagnostics/inspect").text
    osb.expire("sb-1")
    assert get(osb, "sb-1").status_code == 404
    osb.delete(osb.create(id="sb-2"))
    assert get(osb, "sb-2").status_code == 404


def test_a_fault_meets_one_sandbox_or_the_whole_route_until_it_is_lifted(osb):
    osb.create(id="sb-1")
    osb.create(id="sb-2")
    osb.fault(Route.INSPECT, "sb-1", status=500, body="Internal Server Error")
    assert [get(osb, f"{one}/diagnostics/inspect").status_code for one in ("sb-1", "sb-2")] == [500, 200]
    osb.fault(Route.INSPECT, body="garbage", status=200)
    assert get(osb, "sb-2/diagnostics/inspect").text == "garbage"
    assert get(osb, "sb-1/diagnostics/inspect").status_code == 500
    osb.clear_faults(Route.INSPECT, "sb-1")
    assert get(osb, "sb-1/diagnostics/inspect").text == "garbage"
    osb.clear_faults()
    assert get(osb, "sb-1/diagnostics/inspect").text.startswith("Container ID:")


def test_a_fault_of_execd_shows_through_the_proxy_for_so_many_times(osb):
    osb.create(id="sb-1", limits={"cpu": "1"})
    osb.fault(Route.EXECD, "sb-1", status=200, body='{"cpu_count":NaN}', content_type="application/json", times=2)
    statuses = [get(osb, "sb-1/proxy/44772/metrics") for _ in range(3)]
    assert [answer.text[:15] for answer in statuses] == ['{"cpu_count":Na', '{"cpu_count":Na', '{"cpu_count":2,']
    osb.fault(Route.EXECD, "sb-1", drop=True)
    assert get(osb, "sb-1/proxy/44772/metrics").json()["code"] == "BACKEND_RESPONSE_FAILED"


@pytest.mark.parametrize("route", [Route.GET, Route.INSPECT, Route.ENDPOINT, Route.PROXY, Route.EXECD])
def test_a_hanging_route_never_answers(route):
    path = {Route.GET: "", Route.INSPECT: "/diagnostics/inspect", Route.ENDPOINT: "/endpoints/44772"}
    with osb_in_thread(DeploymentSettings(api_key=KEY, metrics_delay_s=0.0)) as osb:
        osb.create(id="sb-1")
        osb.fault(route, "sb-1", hang=True)
        with pytest.raises(requests.ReadTimeout):
            get(osb, f"sb-1{path.get(route, '/proxy/44772/metrics')}", timeout=0.2)
        stopping_at = time.monotonic()
    assert time.monotonic() - stopping_at < 30


def test_a_dropped_connection_gives_no_answer(osb):
    osb.create(id="sb-1")
    osb.fault(Route.GET, drop=True)
    with pytest.raises(requests.ConnectionError):
        get(osb, "sb-1")
    osb.clear_faults()
    assert get(osb, "sb-1").status_code == 200


@pytest.mark.parametrize("wrong", [{"status": 99}, {"route": "nosuch"}, {"delay_s": -1}, {"unheard_of": 1}])
def test_a_wrong_fault_is_refused(wrong):
    with pytest.raises(ValueError, match="Fault"):
        Fault(**{"route": Route.GET, **wrong})


def test_a_wrong_order_is_answered_with_what_is_wrong(osb):
    for method, path, body, status in (
        ("POST", "sandboxes", '{"state": "Sleeping"}', 422),
        ("PATCH", "sandboxes/nosuch", "{}", 404),
        ("DELETE", "sandboxes/nosuch", "", 404),
        ("POST", "faults", "no JSON", 422),
        ("GET", "requests/count?route=nosuch", "", 422),
    ):
        answer = requests.request(method, f"{osb.url}/_control/{path}", data=body, timeout=60)
        assert (answer.status_code, "error" in answer.json()) == (status, True)
    osb.create(id="sb-1")
    with pytest.raises(ValueError, match="409"):
        osb.create(id="sb-1")


def test_requests_are_counted_and_kept_with_their_headers(osb):
    osb.create(id="sb-1")
    for _ in range(3):
        get(osb, "sb-1")
    get(osb, "sb-2")
    assert (osb.count(Route.GET), osb.count(Route.GET, "sb-1"), osb.count(Route.LIST)) == (4, 3, 0)
    assert osb.most_in_flight(Route.GET) == 1
    last = osb.requests(Route.GET)[-1]
    assert (last.sandbox_id, last.path, last.headers[API_KEY_HEADER.lower()]) == ("sb-2", "/v1/sandboxes/sb-2", KEY)
    assert osb.wait_for(3, Route.GET, "sb-1") == 3
    with pytest.raises(TimeoutError, match="3 of 4"):
        osb.wait_for(4, Route.GET, "sb-1", timeout_s=0.1)


async def test_a_waiter_is_woken_by_the_request_it_waits_for(start_osb, http):
    osb = await start_osb()
    osb.deployment.create(SandboxSpec(id="sb-1"))
    waiting = asyncio.create_task(osb.journal.wait_for(2, Route.GET, "sb-1", timeout_s=60))
    for _ in range(2):
        assert not waiting.done()
        async with http.get(f"{osb.url}/v1/sandboxes/sb-1"):
            pass
    assert await waiting == 2


async def test_without_the_switch_there_are_no_control_routes(start_osb, http):
    osb = await start_osb()
    async with http.post(f"{osb.url}/_control/sandboxes", json={}) as answer:
        assert answer.status == 404


def test_a_killed_deployment_comes_back_on_its_port():
    (port,) = map(str, free_ports(1))
    with osb_in_process(["--port", port], api_key=KEY) as first:
        assert first.kill() == -signal.SIGKILL
        with pytest.raises(requests.ConnectionError):
            get(first.osb, "sb-1")
        with osb_in_process(["--port", port], api_key=KEY) as second:
            assert second.osb.url == first.osb.url
            second.osb.create(id="sb-1")
            assert get(second.osb, "sb-1").status_code == 200
            assert second.stop() == 0


def test_a_process_without_its_key_says_which_variable_is_missing(capfd):
    with pytest.raises(RuntimeError, match="ended with 2"), osb_in_process(["--api-key-env", "UNSET_VARIABLE_OF_TEST"]):
        pass
    assert "UNSET_VARIABLE_OF_TEST" not in os.environ
    assert "--api-key-env UNSET_VARIABLE_OF_TEST: the variable is unset or empty" in capfd.readouterr().err
