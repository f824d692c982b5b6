"""What the doctor says of a control plane: simulated ones in every state, and servers that are none."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web

from sandgauge_demo.deployment import DeploymentSettings, Route
from sandgauge_poller.config import Deployment
from sandgauge_poller.doctor.control_plane import examine
from sandgauge_poller.doctor.finding import Verdict
from support.certificate import make_certificate, server_context
from support.http_stub import StubServer
from support.simulated_osb import osb_in_thread
from support.stub_control_plane import ID, METRICS, proxied

KEY = "k3y-of-the-control-plane"
LIST = "/v1/sandboxes?state=Running&page=1&pageSize=1"
NOW_S = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
EMPTY_LIST = {"items": [], "pagination": {}}
ONE = {"items": [{"id": ID, "status": {"state": "Running"}}], "pagination": {}}


def findings(url, *, key=KEY, now_s=None, **deployment):
    made = examine(Deployment(name="training", endpoint=url, api_key=key, **deployment), 60.0, now_s or time.time)
    return [str(finding) for finding in made]


@pytest.fixture
def osb():
    with osb_in_thread(DeploymentSettings(api_key=KEY, proxy_needs_key=True, metrics_delay_s=0.0)) as deployment:
        yield deployment


@pytest.fixture
async def stub():
    async with StubServer() as server:
        server.say("/version", json={"version": "1.1.1"})
        server.say(LIST, json=EMPTY_LIST)
        yield server


async def of(stub, **arguments):
    return await asyncio.to_thread(findings, stub.url, **arguments)


def test_all_is_well_with_the_right_key(osb):
    osb.create()
    said = findings(osb.url)
    assert [line[:4] for line in said] == ["pass"] * 3
    assert "OpenSandbox 1.1.1 lists its sandboxes and takes the api_key" in said[0]
    assert "clock is within 1m" in said[1]
    assert "a running sandbox can be read through the proxy" in said[2]
    assert all(request.headers["opensandbox-access-renew"] == "skip" for request in osb.requests(Route.PROXY))


def test_without_a_running_sandbox_nothing_is_read(osb):
    osb.pause(osb.create())
    assert len(findings(osb.url)) == 2
    assert osb.count(Route.PROXY) == 0


def test_a_deployment_that_is_only_read_directly_is_not_read_through_its_proxy(osb):
    osb.create()
    assert len(findings(osb.url, use_server_proxy="false")) == 2
    assert osb.count(Route.PROXY) == 0


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "the control plane wants an api_key (HTTP 401)"),
        ("wr0ng", "the control plane refuses the api_key (HTTP 401)"),
    ],
)
def test_a_key_that_is_wrong_or_missing_is_told_apart(osb, key, said):
    (line,) = findings(osb.url, key=key)
    assert line == f"fail  deployment training: unauthorized: {said}; write the server's own key as api_key"


async def test_a_gateways_refusal_is_not_the_control_planes(stub):
    stub.say(LIST, status=401, text="<html>who are you</html>")
    (line,) = await of(stub)
    assert line.startswith("fail")
    assert "unauthorized by something in front of the control plane (HTTP 401)" in line
    assert "who are you" not in line


@pytest.mark.parametrize(
    ("body", "verdict", "said"),
    [
        ({"error": "Unauthorized: x"}, "warn", "unauthorized by the daemon in a sandbox"),
        ({"code": "MISSING_API_KEY", "message": "x"}, "fail", "unauthorized by the control plane's proxy"),
    ],
)
async def test_whose_refusal_a_reading_met_is_named(stub, body, verdict, said):
    stub.say(LIST, json=ONE)
    stub.say(proxied(), status=401, json=body)
    line = (await of(stub))[-1]
    assert line.startswith(verdict)
    assert said in line


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"json": METRICS}, "pass  deployment training: a running sandbox can be read"),
        ({"status": 502, "json": {"code": "BACKEND_CONNECTION_FAILED"}}, "failed (HTTP 502)"),
        ({"text": "<html>"}, "is unusable (unrecognized_format)"),
        ({"json": METRICS | {"mem_total_mib": 0, "mem_used_mib": 0, "cpu_count": 0, "cpu_used_pct": 0}}, "no_reading"),
    ],
)
async def test_what_a_reading_gave_is_said(stub, answer, said):
    stub.say(LIST, json=ONE)
    stub.say(proxied(), **answer)
    line = (await of(stub))[-1]
    assert said in line
    assert not line.startswith("fail")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 200, "text": "<html>Welcome</html>"}, "answers, but not as an OpenSandbox (HTTP 200)"),
        ({"status": 200, "json": {"items": {}}}, "answers, but not as an OpenSandbox"),
        ({"status": 200, "json": [1]}, "answers, but not as an OpenSandbox"),
        ({"status": 200, "text": '{"items": ['}, "answers, but not as an OpenSandbox"),
        ({"status": 404, "json": {"detail": "Not Found"}}, "answers, but not as an OpenSandbox (HTTP 404)"),
        ({"status": 422, "json": {"detail": []}}, "answers, but not as an OpenSandbox (HTTP 422)"),
        ({"status": 429, "text": ""}, "cannot list its sandboxes (HTTP 429)"),
        ({"status": 500, "text": "boom"}, "cannot list its sandboxes (HTTP 500)"),
    ],
)
async def test_what_is_no_opensandbox_or_in_trouble_is_told_apart(stub, answer, said):
    stub.say(LIST, **answer)
    (line,) = await of(stub)
    assert line.startswith("fail")
    assert said in line


@pytest.mark.parametrize("status", range(301, 309))
async def test_a_redirect_is_named_and_not_followed(stub, status):
    async def handler(_request):
        return web.Response(status=status, headers={"Location": f"{stub.url}/elsewhere"})

    stub.on(LIST, handler)
    (line,) = await of(stub)
    assert f"redirects (HTTP {status}), which is not followed" in line
    assert stub.paths == [LIST]


def test_nobody_there():
    (line,) = findings("http://127.0.0.1:9")
    assert line.startswith("fail  deployment training: unreachable: Connection refused; start the control plane")


async def test_plain_http_where_tls_was_meant(stub):
    (line,) = await asyncio.to_thread(findings, stub.url.replace("http:", "https:"))
    assert line.startswith("fail  deployment training: unreachable: ")
    assert line.endswith("or write http:// if it speaks no TLS")


async def test_a_certificate_is_taken_from_its_authority_alone(tmp_path):
    certificate = make_certificate(tmp_path)
    server = StubServer()
    server.say(LIST, json=EMPTY_LIST)
    await server.start(server_context(certificate))
    try:
        url = server.url.replace("http:", "https:")
        (unknown,) = await asyncio.to_thread(findings, url)
        known = await asyncio.to_thread(findings, url, tls={"ca_file": str(certificate)})
    finally:
        await server.stop()
    assert "CERTIFICATE_VERIFY_FAILED" in unknown
    assert "name the authority of its certificate as tls.ca_file" in unknown
    assert known[0].startswith("pass")


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ({"version": "0.9.0-rc1"}, "OpenSandbox 0.9.0-rc1 "),
        ({"version": "\x1b[31mred"}, "of an unknown version"),
        ([], "unknown"),
    ],
)
async def test_a_version_is_shown_only_if_it_is_one(stub, version, said):
    stub.say("/version", json=version)
    assert said in (await of(stub))[0]
    assert "\x1b" not in (await of(stub))[0]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "pass  deployment training: its clock is within 1m of this machine's"),
        (-59, "pass"),
        (300, "warn  deployment training: its clock is 5m ahead of this machine's"),
        (-90, "warn  deployment training: its clock is 1m30s behind this machine's"),
    ],
)
async def test_a_clock_that_is_off_is_said(stub, seconds, said):
    moment = datetime.fromtimestamp(NOW_S, UTC) + timedelta(seconds=seconds)

    async def handler(_request):
        return web.json_response(EMPTY_LIST, headers={"Date": format_datetime(moment, usegmt=True)})

    stub.on(LIST, handler)
    line = (await of(stub, now_s=lambda: NOW_S))[1]
    assert line.startswith(said)


async def test_a_date_that_is_none_is_left_out(stub):
    async def handler(_request):
        return web.json_response(EMPTY_LIST, headers={"Date": "yesterday"})

    stub.on(LIST, handler)
    assert len(await of(stub)) == 1


async def test_the_key_and_what_came_back_are_never_shown(stub):
    secret = "c4nary-of-the-body"
    for answer in ({"status": 401, "text": secret}, {"status": 401, "json": {"code": secret}}, {"text": secret}):
        stub.say(LIST, **answer)
        said = "\n".join(await of(stub))
        assert secret not in said
        assert KEY not in said


def test_verdicts_are_words():
    assert {verdict.value for verdict in Verdict} == {"pass", "warn", "fail"}
