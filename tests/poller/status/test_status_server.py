"""The status port alone: which routes want the token, and what the probes say while parts come up or go away."""

import re
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from sandgauge_poller.config import Status
from sandgauge_poller.reading.provider import LastAnswer
from sandgauge_poller.self_histograms import SelfHistograms
from sandgauge_poller.self_metrics import SelfMetrics, make_meter_provider
from sandgauge_poller.status.metrics_page import MetricsPage
from sandgauge_poller.status.readiness import Readiness
from sandgauge_poller.status.server import StatusServer
from sandgauge_schemas import names
from sandgauge_schemas.names import ErrorType, SpanOutcome

TOKEN = "t0ken-of-the-page"


class StubProvider:
    def __init__(self, last=None):
        self._last = last

    def last_answer(self):
        return self._last


class StubApi:
    async def answer(self, request):
        return web.json_response({})

    overview = sandboxes = sandbox = answer


@asynccontextmanager
async def served(readiness=None, token=""):
    histograms = SelfHistograms("test")
    page = MetricsPage(histograms)
    provider = make_meter_provider(lambda _: True, histograms, interval_s=3600, other_readers=[page.reader])
    metrics = SelfMetrics(provider.get_meter("test"), histograms)
    metrics.spans(SpanOutcome.ACCEPTED, None, 3)
    status = Status(endpoint="127.0.0.1:0", auth={"bearer_token": token})
    server = StatusServer(status, readiness or Readiness(monotonic=lambda: 0.0), page, StubApi())
    host, port = await server.start()
    try:
        async with aiohttp.ClientSession(f"http://{host}:{port}", trust_env=False) as session:
            yield session
    finally:
        await server.stop()
        provider.shutdown()


@pytest.mark.parametrize(
    ("path", "auth", "status"),
    [
        ("/healthz", None, 200),
        ("/readyz", None, 503),
        ("/metrics", None, 401),
        ("/metrics", f"Bearer {TOKEN}", 200),
        ("/metrics", aiohttp.encode_basic_auth("", TOKEN), 200),
        ("/metrics", aiohttp.encode_basic_auth("prometheus", TOKEN), 200),
        ("/metrics", aiohttp.encode_basic_auth(TOKEN, ""), 401),
        ("/metrics", "Bearer wrong", 401),
        ("/", None, 401),
        ("/", aiohttp.encode_basic_auth("", TOKEN), 200),
        ("/page.js", None, 401),
        ("/page.js", f"Bearer {TOKEN}", 200),
        ("/api/v1/overview", None, 401),
        ("/api/v1/overview", f"Bearer {TOKEN}", 200),
        ("/api/v1/sandboxes", None, 401),
        ("/api/v1/sandboxes/s-1", None, 401),
        ("/api/v1/sandboxes/s-1", f"Bearer {TOKEN}", 200),
    ],
)
async def test_probes_need_no_token_and_the_page_does(path, auth, status):
    async with (
        served(token=TOKEN) as session,
        session.get(path, headers={"Authorization": auth} if auth else {}) as answer,
    ):
        assert answer.status == status
        assert ("WWW-Authenticate" in answer.headers) is (status == 401)
        assert TOKEN not in await answer.text()


async def test_without_a_token_the_page_is_open_and_names_its_format():
    async with served() as session, session.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        families = {family.name: family for family in text_string_to_metric_families(await answer.text())}
    (sample,) = [s for s in families["sandgauge_poller_spans"].samples if s.name == "sandgauge_poller_spans_total"]
    assert (sample.labels["outcome"], sample.value) == ("accepted", 3)


async def test_the_store_and_the_ingest_port_are_the_gates():
    readiness = Readiness(monotonic=lambda: 0.0)
    async with served(readiness) as session:
        for store, ingest, status in ((False, False, 503), (True, False, 503), (False, True, 503), (True, True, 200)):
            readiness.store_trouble = lambda store=store: None if store else "it is full"
            readiness.ingest = ingest
            async with session.get("/readyz") as answer:
                assert answer.status == status
                assert await answer.json() == {
                    "ready": status == 200,
                    "store": store,
                    **({} if store else {"store_trouble": "it is full"}),
                    "ingest": ingest,
                    "control_planes": {},
                }


async def test_a_control_plane_is_shown_and_is_no_gate():
    providers = {
        "fine": StubProvider(LastAnswer(97.5, None)),
        "away": StubProvider(LastAnswer(40.0, ErrorType.CONNECTION)),
        "idle": StubProvider(),
    }
    readiness = Readiness(monotonic=lambda: 100.0, store_trouble=lambda: None, ingest=True, providers=providers)
    async with served(readiness) as session, session.get("/readyz") as answer:
        assert answer.status == 200
        assert (await answer.json())["control_planes"] == {
            "fine": {"last_answer": "ok", "seconds_ago": 2.5},
            "away": {"last_answer": names.ErrorType.CONNECTION.value, "seconds_ago": 60.0},
            "idle": {"last_answer": "not_asked"},
        }


async def test_every_answer_keeps_strangers_and_other_hosts_out():
    async with served() as session:
        for path in ("/", "/page.js", "/page.css", "/icon.svg", "/api/v1/overview", "/metrics", "/readyz", "/nowhere"):
            async with session.get(path) as answer:
                policy = answer.headers["Content-Security-Policy"].split("; ")
                assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} <= {
                    *policy
                }
                assert "unsafe" not in answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/api/v1/overview", "/api/v1/sandboxes", "/api/v1/sandboxes/s-1"])
async def test_nothing_can_be_changed(method, path):
    async with served() as session, session.request(method, path) as answer:
        assert answer.status == 405


@pytest.mark.parametrize(
    ("host", "token", "status"),
    [
        ("localhost:8099", "", 200),
        ("127.0.0.1", "", 200),
        ("[::1]:8099", "", 200),
        ("rebound.example:8099", "", 421),
        ("[::1", "", 421),
        ("rebound.example:8099", TOKEN, 200),
    ],
)
async def test_without_a_token_it_is_served_under_names_of_this_machine_alone(host, token, status):
    headers = {"Host": host, "Authorization": f"Bearer {token}"}
    async with served(token=token) as session:
        async with session.get("/api/v1/overview", headers=headers) as answer:
            assert answer.status == status
        async with session.get("/healthz", headers=headers) as answer:
            assert answer.status == 200, "a probe may come under any name"


async def test_the_page_names_nothing_of_another_host_and_no_code_within_it():
    async with served() as session, session.get("/") as answer:
        page = await answer.text()
    named = set(re.findall(r'(?:href|src)="([^"#]+)"', page))
    assert named == {path.removeprefix("/") for path in ("/icon.svg", "/page.css", "/page.js")}
    assert not re.search(r"<script(?![^>]*src=)|\bon[a-z]+=|style=", page)
