"""The source against a stub of an API server: what each of its answers becomes."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from sandgauge_poller.reading.kubernetes import lists
from sandgauge_poller.reading.kubernetes.client import MAX_ANSWER_BYTES
from sandgauge_poller.reading.kubernetes.credentials import BearerToken, Credentials, make_tls
from sandgauge_poller.reading.kubernetes.source import KubernetesSettings, KubernetesUsage
from sandgauge_poller.reading.times import read_time
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageObservation, UsageTarget
from sandgauge_schemas.names import ErrorType, ResourceSource
from sandgauge_schemas.placement import Identity
from support.certificate import make_certificate, server_context
from support.http_stub import RawServer, StubServer
from support.pod_lists import TIMESTAMP, container, pod, pod_list, pod_metrics, pod_metrics_list

FIXTURES = Path(__file__).parents[2] / "fixtures"
STATUS_403 = json.loads((FIXTURES / "pod-metrics" / "status" / "input.json").read_text())
SCOPE = "http://osb.invalid:8080"
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/osb/pods"
PODS = "/api/v1/namespaces/osb/pods"
FIRST_PAGE = f"{PODS}?limit=500"


def target(name: str, namespace: str = "osb", scope: str = SCOPE) -> UsageTarget:
    return UsageTarget(f"id-of-{name}", Identity("kubernetes", scope, f"namespaces/{namespace}/pods/{name}"))


@asynccontextmanager
async def opened(
    url: str, token: str = "", tls: ssl.SSLContext | None = None, **settings
) -> AsyncIterator[KubernetesUsage]:
    credentials = Credentials(server=URL(url), token=BearerToken(token), tls=tls)
    source = KubernetesUsage(credentials, KubernetesSettings(**{"interval_s": 15.0, "timeout_s": 60.0, **settings}))
    try:
        yield source
    finally:
        await source.close()


@pytest.fixture
async def server() -> AsyncIterator[StubServer]:
    async with StubServer() as stub:
        yield stub


async def swept(source: KubernetesUsage, *targets: UsageTarget) -> dict[str, UsageAnswer]:
    answers = [pair async for pair in source.sweep(targets)]
    assert len(answers) == len(targets)
    return {answered.designator.id.rpartition("/")[2]: answer for answered, answer in answers}


async def sweep_of_one(source: KubernetesUsage, name: str = "p") -> ErrorType | UsageObservation | None:
    answer = (await swept(source, target(name)))[name]
    assert (answer.error_type is None) == (answer.observation is not None)
    assert answer.source is ResourceSource.KUBERNETES_METRICS
    assert answer.window.start_ns <= answer.window.end_ns
    return answer.error_type or answer.observation


async def test_one_list_serves_every_sandbox_of_a_namespace(server: StubServer) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("a"), pod_metrics("b", sandbox=("1", "1Mi"))))
    async with opened(server.url) as source:
        answers = await swept(source, target("a"), target("b"), target("vanished"))
    assert server.paths == [METRICS]
    assert answers["a"].observation == UsageObservation(
        timestamp_ns=read_time(TIMESTAMP) or 0,
        cpu_used_cores=0.25,
        window_s=15.003,
        memory_working_set_mib=64.0,
    )
    assert answers["b"].observation is not None
    assert answers["b"].observation.cpu_used_cores == 1.0
    assert answers["vanished"].error_type is ErrorType.NO_READING


async def test_every_namespace_has_a_list_of_its_own_and_one_that_hangs_delays_no_other(server: StubServer) -> None:
    async def hang(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    server.on(METRICS, hang)
    server.say(METRICS.replace("osb", "other"), json=pod_metrics_list(pod_metrics("a")))
    async with opened(server.url, timeout_s=2.0) as source:
        answers = [
            (asked.designator.id, answer.error_type)
            async for asked, answer in source.sweep([target("a"), target("a", "other")])
        ]
    assert answers == [
        ("namespaces/other/pods/a", None),
        ("namespaces/osb/pods/a", ErrorType.TIMEOUT),
    ]


async def test_a_sweep_that_nobody_reads_on_leaves_nothing_behind(server: StubServer) -> None:
    async def hang(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    server.on(METRICS, hang)
    server.say(METRICS.replace("osb", "other"), json=pod_metrics_list(pod_metrics("a")))
    async with opened(server.url, timeout_s=60.0) as source:
        sweep = source.sweep([target("a"), target("a", "other")])
        await anext(sweep)
        async with asyncio.timeout(30):
            await sweep.aclose()


@pytest.mark.parametrize(
    ("status", "said", "becomes"),
    [
        (
            403,
            STATUS_403,
            (ErrorType.UNAUTHORIZED, ["metrics.k8s.io", "namespace osb", 'verbs: ["list"]', "rbac.yaml"]),
        ),
        (401, {"kind": "Status"}, (ErrorType.UNAUTHORIZED, ["does not take the credentials"])),
        (404, "404 page not found\n", (ErrorType.HTTP_ERROR, ["not served", "install metrics-server"])),
        (503, "service unavailable\n", (ErrorType.HTTP_ERROR, ["nothing behind it", "v1beta1.metrics.k8s.io"])),
        (500, "x", (ErrorType.HTTP_ERROR, ["HTTP 500"])),
        (302, "x", (ErrorType.REDIRECT, ["not followed"])),
        (200, "404 page not found\n", (ErrorType.UNRECOGNIZED_FORMAT, ["not with a list of pods"])),
        (200, pod_list(), (ErrorType.UNRECOGNIZED_FORMAT, ["not with a list of pods"])),
    ],
)
async def test_no_list_is_an_outcome_that_the_log_explains(
    server: StubServer, caplog, status: int, said: object, becomes: tuple[ErrorType, list[str]]
) -> None:
    error_type, words = becomes
    text = said if isinstance(said, str) else None
    server.say(METRICS, status=status, json=None if text else said, text=text)
    async with opened(server.url, token="hunter2-token") as source:
        assert await sweep_of_one(source) is error_type
    assert all(word in caplog.text for word in words)
    assert "hunter2" not in caplog.text
    assert "serviceaccount" not in caplog.text


async def test_no_server_is_an_outcome(caplog) -> None:
    async with opened("http://127.0.0.1:1") as source:
        assert await sweep_of_one(source) is ErrorType.CONNECTION
    assert "no connection to the API server" in caplog.text


async def test_an_answer_without_end_is_cut_off() -> None:
    body = b"x" * MAX_ANSWER_BYTES
    async with RawServer(b"HTTP/1.1 200 OK\r\n\r\n", body, b"x") as raw, opened(raw.url, timeout_s=60.0) as source:
        assert await sweep_of_one(source) is ErrorType.BODY_TOO_LARGE


async def test_a_list_that_comes_in_pages_is_read_to_its_end(server: StubServer) -> None:
    pages = [
        json.loads((FIXTURES / "pod-metrics" / case / "input.json").read_text())
        for case in ("paged-first", "paged-last")
    ]
    server.say(METRICS, json=pages[0])
    server.say(f"{METRICS}?continue={pages[0]['metadata']['continue']}", json=pages[1])
    async with opened(server.url) as source:
        answers = await swept(source, target("sbx-p1-0"), target("sbx-p2-1"))
    assert [answers[name].error_type for name in ("sbx-p1-0", "sbx-p2-1")] == [None, None]


async def test_a_server_that_ignores_paging_is_asked_once(server: StubServer) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p"), pod_metrics("q")))
    async with opened(server.url) as source:
        await swept(source, target("p"), target("q"))
    assert server.paths == [METRICS]


async def test_pages_without_end_are_bounded(server: StubServer, monkeypatch) -> None:
    monkeypatch.setattr(lists, "_MOST_PAGES", 3)
    for path in (METRICS, f"{METRICS}?continue=again"):
        server.say(path, json=pod_metrics_list(pod_metrics("p"), **{"continue": "again"}))
    async with opened(server.url) as source:
        assert await sweep_of_one(source) is ErrorType.BODY_TOO_LARGE


async def test_the_same_list_again_has_the_same_time_so_that_it_counts_once(server: StubServer) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    async with opened(server.url) as source:
        assert await sweep_of_one(source) == await sweep_of_one(source)


async def test_core_pods_are_asked_for_only_where_they_are_wanted(server: StubServer) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    async with opened(server.url) as source:
        await sweep_of_one(source)
        assert source.kills(target("p")) is None
    assert server.paths == [METRICS]


async def test_core_pods_tell_lives_and_kills(server: StubServer) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    following = "a+/="
    server.say(FIRST_PAGE, json=pod_list(pod("other"), **{"continue": following, "remainingItemCount": 1}))
    server.say(f"{FIRST_PAGE}&continue=a%2B/%3D", json=pod_list(pod("p", container(restarts=1, last="OOMKilled"))))
    async with opened(server.url, pods=True) as source:
        observation = await sweep_of_one(source)
        assert isinstance(observation, UsageObservation)
        assert observation.started_ns == read_time("2026-11-30T07:00:02Z")
        assert source.kills(target("p")) == Kills(since_ns=read_time("2026-11-30T07:00:00Z") or 0, main_killed=True)
        assert source.kills(target("other")) is None
        source.forget(target("p"))
        assert source.kills(target("p")) is None


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param([container(), container("egress")], id="one container has no numbers"),
        pytest.param(
            [container(started="2026-11-30T08:00:00Z", restarts=1, last="Error")], id="numbers of the life before"
        ),
    ],
)
async def test_numbers_of_a_part_or_of_the_life_before_are_no_reading(server: StubServer, containers) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    server.say(FIRST_PAGE, json=pod_list(pod("p", *containers)))
    async with opened(server.url, pods=True) as source:
        assert await sweep_of_one(source) is ErrorType.NO_READING


async def test_without_core_pods_for_once_usage_stays_and_so_does_what_was_told(server: StubServer, caplog) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    server.say(FIRST_PAGE, json=pod_list(pod("p", container())))
    async with opened(server.url, pods=True) as source:
        first = await sweep_of_one(source)
        server.say(FIRST_PAGE, status=403, json=STATUS_403)
        assert await sweep_of_one(source) == first
    assert 'apiGroups: [""], resources: ["pods"], verbs: ["list"]' in caplog.text


async def test_a_list_that_expires_is_begun_anew_once(server: StubServer) -> None:
    status_410 = json.loads((FIXTURES / "api-server" / "status-410.json").read_text())
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    server.say(FIRST_PAGE, json=pod_list(pod("q"), **{"continue": "old"}))
    expired = f"{FIRST_PAGE}&continue=old"

    async def expire(_request: web.Request) -> web.StreamResponse:
        server.say(FIRST_PAGE, json=pod_list(pod("p", container())))
        return web.json_response(status_410, status=410)

    server.on(expired, expire)
    async with opened(server.url, pods=True) as source:
        await sweep_of_one(source)
        assert source.kills(target("p")) is not None
        assert [path for path in server.paths if path != METRICS] == [FIRST_PAGE, expired, FIRST_PAGE]
        server.say(FIRST_PAGE, status=410, json=status_410)
        server.seen.clear()
        assert isinstance(await sweep_of_one(source), UsageObservation)
        assert server.paths.count(FIRST_PAGE) == 2


async def test_the_token_goes_along_and_one_that_is_refused_is_read_again(server: StubServer, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")

    async def check(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != "Bearer new":
            file.write_text("new")
            return web.Response(status=401)
        return web.json_response(pod_metrics_list(pod_metrics("p")))

    server.on(METRICS, check)
    credentials = Credentials(server=URL(server.url), token=BearerToken(file=file))
    source = KubernetesUsage(credentials, KubernetesSettings(interval_s=15.0, timeout_s=60.0))
    assert await sweep_of_one(source) is ErrorType.UNAUTHORIZED
    assert isinstance(await sweep_of_one(source), UsageObservation)
    await source.close()


async def test_a_client_certificate_is_shown_and_the_server_is_known_by_its_other_name(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = server_context(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    stub = StubServer()
    stub.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    await stub.start(tls=context)
    pem, key = certificate.read_bytes(), certificate.with_name("key.pem").read_bytes()
    outcomes = []
    for tls, hostname in (
        (make_tls(pem, pem, key), "localhost"),
        (make_tls(pem, pem, key), "other"),
        (make_tls(pem), None),
    ):
        server_url = URL(f"https://127.0.0.1:{stub.port}")
        credentials = Credentials(server=server_url, tls=tls, server_hostname=hostname)
        source = KubernetesUsage(credentials, KubernetesSettings(interval_s=15.0, timeout_s=60.0))
        outcome = await sweep_of_one(source)
        outcomes.append(outcome if isinstance(outcome, ErrorType) else None)
        await source.close()
    await stub.stop()
    assert outcomes == [None, ErrorType.CONNECTION, ErrorType.CONNECTION]


async def test_no_proxy_of_the_environment_is_used(server: StubServer, monkeypatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    async with opened(server.url) as source:
        assert isinstance(await sweep_of_one(source), UsageObservation)


@pytest.mark.parametrize(
    ("kind", "id_", "serves"),
    [
        ("kubernetes", "namespaces/osb/pods/p", True),
        ("kubernetes", "namespaces/osb/pods/p.with.dots", True),
        ("docker-container", "namespaces/osb/pods/p", False),
        ("kubernetes", "osb/p", False),
        ("kubernetes", "namespaces/../pods/p", False),
        ("kubernetes", "namespaces/osb/pods/p?x", False),
        ("kubernetes", "namespaces/osb/pods/p\n", False),
        ("kubernetes", "namespaces/Osb/pods/p", False),
        ("kubernetes", f"namespaces/{'n' * 64}/pods/p", False),
    ],
)
async def test_pods_are_served(kind, id_, serves) -> None:
    async with opened("http://127.0.0.1:1") as source:
        assert source.serves(Identity(kind, SCOPE, id_)) is serves


async def test_it_says_nothing_while_all_is_well(server: StubServer, caplog) -> None:
    caplog.set_level(logging.DEBUG, logger="sandgauge_poller")
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p")))
    server.say(FIRST_PAGE, json=pod_list(pod("p", container())))
    async with opened(server.url, token="hunter2-token", pods=True) as source:
        await sweep_of_one(source)
    assert not [record for record in caplog.records if record.name.startswith("sandgauge")]


async def test_a_sandbox_that_comes_to_run_in_another_pod_is_let_go_of_whole(server: StubServer) -> None:
    server.say(METRICS, json=pod_metrics_list(pod_metrics("p"), pod_metrics("q")))
    server.say(FIRST_PAGE, json=pod_list(pod("p", container(restarts=1, last="OOMKilled")), pod("q", container())))
    before = target("p")
    after = UsageTarget(before.sandbox_id, target("q").designator)
    async with opened(server.url, pods=True) as source:
        for each, killed in ((before, True), (after, False)):
            await swept(source, each)
            kills = source.kills(each)
            assert kills is not None
            assert kills.main_killed is killed
        source.forget(after)
        assert source.kills(before) is None
