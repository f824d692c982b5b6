import logging
import re
from pathlib import Path

import pytest
from aiohttp import web

from sandgauge_poller.reading.provider import SandboxState, Usage
from sandgauge_schemas.names import ErrorType, ResourceSource
from support.busy_machine import beside_timer
from support.http_stub import RawServer, StubServer
from support.stub_control_plane import ID, KEY, StubControlPlane, endpoint, inspect, opened, proxied, sandbox

INSPECT_TEXTS = Path(__file__).parents[2] / "fixtures" / "inspect"
USAGE = Usage(
    timestamp_ms=1795000001000,
    cpu_count=2.0,
    cpu_used_percentage=12.5,
    memory_total_mib=2048.0,
    memory_used_mib=90.5,
)


@pytest.fixture
async def control_plane():
    async with StubControlPlane() as server:
        yield server


async def test_an_allocation_has_its_placement_within_the_deployment(control_plane):
    control_plane.say(inspect(), text=(INSPECT_TEXTS / "docker-forged-in-environment" / "input.txt").read_text())
    async with opened(control_plane) as provider:
        reading = await provider.read_allocation(ID)
    assert reading.error_type is None
    assert reading.source is ResourceSource.OPENSANDBOX_INSPECT_DOCKER
    assert reading.allocation.components[0].name == "sandbox"
    assert reading.allocation.notes == ("rounded",)
    designator = reading.allocation.designator
    assert designator is not None
    assert (designator.kind, designator.scope) == ("docker-container", control_plane.url)
    assert re.fullmatch(r"[0-9a-f]{12}", designator.id)
    assert reading.oom_killed is False
    assert control_plane.paths == [inspect()]
    assert control_plane.seen[0].headers["OPEN-SANDBOX-API-KEY"] == KEY


async def test_placement_stays_although_the_quantities_are_unavailable(control_plane):
    control_plane.say(inspect(), text="Container ID:   240b23285899\nName:           x\n\nResources:\n\nNetwork:\n")
    async with opened(control_plane) as provider:
        reading = await provider.read_allocation(ID)
    assert reading.error_type is ErrorType.NO_SUPPORTED_QUANTITY
    assert reading.allocation.components[0].limits.cpu is None
    assert reading.allocation.designator is not None


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        ({"status": 404, "json": {"code": "DOCKER::SANDBOX_NOT_FOUND", "message": "x"}}, ErrorType.NOT_FOUND),
        ({"status": 404, "json": {"code": "KUBERNETES::SANDBOX_NOT_FOUND", "message": "No pod"}}, ErrorType.NOT_FOUND),
        ({"status": 404, "json": {"detail": "Not Found"}}, ErrorType.HTTP_ERROR),
        ({"status": 401, "json": {"code": "MISSING_API_KEY", "message": "x"}}, ErrorType.UNAUTHORIZED),
        ({"status": 403, "text": "no"}, ErrorType.UNAUTHORIZED),
        ({"status": 500, "text": "Internal Server Error"}, ErrorType.HTTP_ERROR),
        ({"status": 307, "text": ""}, ErrorType.REDIRECT),
        ({"text": ""}, ErrorType.UNRECOGNIZED_FORMAT),
        ({"text": "<html>"}, ErrorType.UNRECOGNIZED_FORMAT),
        ({"text": "{\n}"}, ErrorType.NO_SUPPORTED_QUANTITY),
        ({"text": "Container ID: x\n" + "y" * 1024**2}, ErrorType.BODY_TOO_LARGE),
    ],
)
async def test_why_an_allocation_is_unavailable(control_plane, answer, error_type):
    control_plane.say(inspect(), **answer)
    async with opened(control_plane) as provider:
        reading = await provider.read_allocation(ID)
    assert reading.error_type is error_type
    assert reading.allocation.components == ()
    assert reading.window.end_ns >= reading.window.start_ns


async def test_an_inspect_text_that_is_not_utf8_is_read_as_far_as_it_goes(control_plane):
    async def latin(_request: web.Request) -> web.StreamResponse:
        return web.Response(
            body=b"Container ID:   240b23285899\n\nResources:\n  CPU:          0.50 cores\n\nLabels:\n  a=\xe9\n"
        )

    control_plane.on(inspect(), latin)
    async with opened(control_plane) as provider:
        reading = await provider.read_allocation(ID)
    assert reading.error_type is None
    assert reading.allocation.components[0].limits.cpu == 0.5


@pytest.mark.parametrize(
    ("answer", "state", "error_type"),
    [
        ({"json": {"status": {"state": "Paused"}}}, SandboxState.PAUSED, None),
        ({"status": 404, "json": {"code": "DOCKER::SANDBOX_NOT_FOUND"}}, SandboxState.NOT_FOUND, None),
        ({"status": 404, "json": {"detail": "Not Found"}}, None, ErrorType.HTTP_ERROR),
        ({"status": 401, "json": {"code": "MISSING_API_KEY"}}, None, ErrorType.UNAUTHORIZED),
        ({"status": 500, "text": ""}, None, ErrorType.HTTP_ERROR),
        ({"text": "hello"}, None, ErrorType.UNRECOGNIZED_FORMAT),
    ],
)
async def test_status(control_plane, answer, state, error_type):
    control_plane.say(sandbox(), **answer)
    async with opened(control_plane) as provider:
        reading = await provider.read_status(ID)
    assert (reading.state, reading.error_type, reading.expires_at_ns) == (state, error_type, None)


async def test_an_expiry_in_the_past_is_told_as_it_stands(control_plane):
    control_plane.has_sandbox("Running", expiresAt="2026-11-20T09:00:00Z")
    async with opened(control_plane) as provider:
        reading = await provider.read_status(ID)
    assert reading.state is SandboxState.RUNNING
    assert reading.expires_at_ns == 1795165200_000000_000


async def test_an_id_stays_one_segment_of_the_path(control_plane):
    async with opened(control_plane, use_server_proxy="true") as provider:
        for hostile in ("../../health", "a/b", "a?b=c", "a#b", "a b", "a\r\nX: y", "%2e%2e"):
            assert (await provider.read_status(hostile)).error_type is ErrorType.HTTP_ERROR
            await provider.read_sample(hostile)
    assert all(request.path.startswith("/v1/sandboxes/") for request in control_plane.seen)
    assert all("X" not in request.headers for request in control_plane.seen)
    assert control_plane.paths[:3] == [
        "/v1/sandboxes/..%2F..%2Fhealth",
        "/v1/sandboxes/..%2F..%2Fhealth/proxy/44772/metrics",
        "/v1/sandboxes/a%2Fb",
    ]


async def test_a_control_plane_under_a_path_and_without_a_key():
    async with StubServer() as server:
        server.say(f"/osb{sandbox()}", json={"status": {"state": "Running"}})
        async with opened(server, endpoint=f"{server.url}/osb/v1/", api_key="") as provider:
            assert (await provider.read_status(ID)).state is SandboxState.RUNNING
    assert "OPEN-SANDBOX-API-KEY" not in server.seen[0].headers


@pytest.mark.parametrize(
    ("answer", "error_type"),
    [
        ({"status": 502, "json": {"code": "BACKEND_CONNECTION_FAILED", "message": "x"}}, ErrorType.HTTP_ERROR),
        (
            {"status": 502, "json": {"code": "GENERAL::UNKNOWN_ERROR", "message": "Could not connect"}},
            ErrorType.HTTP_ERROR,
        ),
        ({"status": 500, "json": {"code": "DOCKER::NETWORK_MODE_ENDPOINT_UNAVAILABLE"}}, ErrorType.HTTP_ERROR),
        ({"status": 504, "json": {"code": "BACKEND_TIMEOUT", "message": "x"}}, ErrorType.HTTP_ERROR),
        # a sandbox can write this itself
        ({"status": 404, "json": {"code": "DOCKER::SANDBOX_NOT_FOUND", "message": "gone"}}, ErrorType.HTTP_ERROR),
        ({"status": 302, "text": ""}, ErrorType.REDIRECT),
        ({"status": 401, "json": {"error": "Unauthorized: X-EXECD-ACCESS-TOKEN"}}, ErrorType.UNAUTHORIZED),
        ({"text": '{"cpu_count":1e309,"cpu_used_pct":-5,"mem_total_mib":"x","timestamp":0}'}, ErrorType.INVALID_VALUE),
        (
            {"text": '{"cpu_count":2,"cpu_used_pct":0,"mem_total_mib":0,"mem_used_mib":0,"timestamp":1}'},
            ErrorType.NO_READING,
        ),
        ({"text": "<html>"}, ErrorType.UNRECOGNIZED_FORMAT),
        ({"text": '{"cpu_count":NaN}'}, ErrorType.INVALID_VALUE),
        ({"text": '{"cpu_count":2,'}, ErrorType.UNRECOGNIZED_FORMAT),
        ({"text": " " * 70_000 + "{}"}, ErrorType.BODY_TOO_LARGE),
    ],
)
async def test_why_a_sample_is_unavailable(control_plane, answer, error_type):
    control_plane.say(proxied(), **answer)
    async with opened(control_plane, use_server_proxy="true") as provider:
        reading = await provider.read_sample(ID)
    assert reading.error_type is error_type
    assert reading.usage is None
    assert reading.source is ResourceSource.OPENSANDBOX_EXECD


async def test_a_sample_through_the_proxy_carries_the_key_and_never_renews(control_plane):
    async with opened(control_plane, use_server_proxy="true") as provider:
        reading = await provider.read_sample(ID)
    assert reading.usage == USAGE
    assert control_plane.paths == [proxied()]
    headers = control_plane.seen[0].headers
    assert headers["OPEN-SANDBOX-API-KEY"] == KEY
    assert headers["OpenSandbox-Access-Renew"] == "skip"


async def test_a_race_at_the_start_ends_in_a_reading(control_plane):
    async with opened(control_plane, use_server_proxy="true") as provider:
        outcomes = []
        for answer in (
            {"status": 502, "json": {"code": "BACKEND_CONNECTION_FAILED", "message": "x"}},
            {"status": 502, "json": {"code": "GENERAL::UNKNOWN_ERROR", "message": "Could not connect"}},
            {"json": {"cpu_count": 1, "cpu_used_pct": 12.5, "mem_total_mib": 2048, "mem_used_mib": 90}},
        ):
            control_plane.say(proxied(), **answer)
            outcomes.append((await provider.read_sample(ID)).error_type)
    assert outcomes == [ErrorType.HTTP_ERROR, ErrorType.HTTP_ERROR, None]


async def test_a_control_plane_that_is_away_is_an_outcome_of_each_question():
    gone = StubControlPlane()  # it has a port and was never started
    for use_server_proxy in ("auto", "true", "false"):
        async with opened(gone, use_server_proxy=use_server_proxy) as provider:
            assert (await provider.read_status(ID)).error_type is ErrorType.CONNECTION
            assert (await provider.read_allocation(ID)).error_type is ErrorType.CONNECTION
            assert (await provider.read_sample(ID)).error_type is ErrorType.CONNECTION


async def test_each_question_has_its_own_bound():
    async with RawServer(then_hold=True) as silent, opened(silent, timeout_s=0.5) as provider:
        for question in (provider.read_status, provider.read_allocation, provider.read_sample):
            answer, later_s = await beside_timer(0.5, question(ID))
            assert answer.error_type is ErrorType.TIMEOUT
            assert later_s == pytest.approx(0.0, abs=0.5)
            assert (answer.window.end_ns - answer.window.start_ns) / 1e9 >= 0.49


@pytest.mark.parametrize(
    ("use_server_proxy", "path", "body", "whose"),
    [
        ("true", proxied(), {"error": "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"}, "the daemon"),
        ("true", proxied(), {"code": "MISSING_API_KEY", "message": "no key"}, "the control plane's proxy"),
        ("false", endpoint(), {"code": "INVALID_API_KEY", "message": "bad key"}, "the control plane refused"),
    ],
)
async def test_the_log_says_whose_refusal_it_is_and_nothing_else(
    control_plane, caplog, *, use_server_proxy, path, body, whose
):
    caplog.set_level(logging.DEBUG)
    control_plane.say(path, status=401, json=body)
    async with opened(control_plane, use_server_proxy=use_server_proxy) as provider:
        for _ in range(20):
            assert (await provider.read_sample(ID)).error_type is ErrorType.UNAUTHORIZED
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("sandgauge_poller")]
    (line,) = set(lines)
    assert whose in line
    assert "training" in line
    everything = caplog.text
    assert KEY not in everything
    assert not any(value in everything for value in body.values())


async def test_inspect_text_stays_out_of_the_log(control_plane, caplog):
    caplog.set_level(logging.DEBUG)
    control_plane.say(inspect(), text="Container ID: x\n\nEnvironment:\n  DATABASE_URL=postgres://u:hunter2@db\n")
    async with opened(control_plane) as provider:
        reading = await provider.read_allocation(ID)
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(reading)
