"""The real control plane with real sandboxes behaves as the reading of them presumes."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import requests

from support.opensandbox_server import OpenSandboxServer
from support.waiting import wait_until

pytestmark = pytest.mark.integration

HOST_CPUS = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Limits:
    """What a sandbox is created with, the lines that inspect has for it, and the processors its execd counts."""

    cpu: str | None
    memory: str | None
    resources: tuple[str, ...]
    cpu_count: int


LIMITS = [
    Limits("500m", "128Mi", ("CPU:          0.50 cores", "Memory:       128 MiB"), cpu_count=min(HOST_CPUS, 2)),
    Limits("125m", "129M", ("CPU:          0.12 cores", "Memory:       123 MiB"), cpu_count=min(HOST_CPUS, 2)),
    Limits(None, None, (), cpu_count=HOST_CPUS),
]


@pytest.fixture(scope="module")
def sandboxes(opensandbox_server: OpenSandboxServer) -> Iterator[dict[str, Limits]]:
    with ThreadPoolExecutor() as pool:
        ids = list(pool.map(lambda limits: opensandbox_server.create(limits.cpu, limits.memory), LIMITS))
    yield dict(zip(ids, LIMITS, strict=True))
    for sandbox_id in ids:
        opensandbox_server.delete(sandbox_id)


def read(url: str) -> tuple[requests.Response, float]:
    start = time.monotonic()
    answer = requests.get(url, timeout=60, headers={"OpenSandbox-Access-Renew": "skip"})
    return answer, time.monotonic() - start


def answers(url: str) -> bool:
    """Whether execd listens: for a moment after creation it may not."""
    return requests.get(url, timeout=60).ok


def test_sandbox_tells_its_state_but_neither_resources_nor_node(opensandbox_server, sandboxes):
    for sandbox_id in sandboxes:
        answer = opensandbox_server.get(f"/v1/sandboxes/{sandbox_id}")
        assert answer.status_code == 200
        body = answer.json()
        assert body["id"] == sandbox_id
        assert body["status"]["state"] == "Running"
        assert not {"resources", "resourceLimits", "node"} & body.keys()


def test_inspect_tells_the_limits_in_force_as_text(opensandbox_server, sandboxes):
    for sandbox_id, limits in sandboxes.items():
        answer = opensandbox_server.get(f"/v1/sandboxes/{sandbox_id}/diagnostics/inspect")
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/plain")
        header, resources, *_ = answer.text.split("\n\n")
        assert header.startswith("Container ID:")
        title, *lines = [line.strip() for line in resources.splitlines()]
        assert title == "Resources:"
        assert tuple(line for line in lines if not line.startswith("PIDs Limit:")) == limits.resources


def test_direct_endpoint_and_server_proxy_lead_to_the_same_execd(opensandbox_server, sandboxes):
    sandbox_id = next(iter(sandboxes))
    path = f"/v1/sandboxes/{sandbox_id}/endpoints/44772"
    direct = opensandbox_server.get(path).json()["endpoint"]
    proxied = opensandbox_server.get(f"{path}?use_server_proxy=true").json()["endpoint"]
    assert direct.startswith(f"{opensandbox_server.daemon.address}:41")
    assert direct.endswith("/proxy/44772")
    assert f"http://{proxied}" == f"{opensandbox_server.endpoint}/v1/sandboxes/{sandbox_id}/proxy/44772"
    host = direct.partition("/")[0]
    for endpoint in (direct, host, proxied):
        wait_until(lambda url=f"http://{endpoint}/ping": answers(url), timeout_s=60, what=f"execd at {endpoint}")


def test_metrics_are_the_nodes_whatever_the_limits_are(opensandbox_server, sandboxes):
    urls = [f"{opensandbox_server.endpoint}/v1/sandboxes/{sandbox_id}/proxy/44772" for sandbox_id in sandboxes]
    for url in urls:
        wait_until(lambda url=url: answers(f"{url}/ping"), timeout_s=60, what=f"execd at {url}")
    before_ms = time.time() * 1000
    with ThreadPoolExecutor() as pool:
        readings = list(pool.map(lambda url: read(f"{url}/metrics"), urls))
    after_ms = time.time() * 1000
    bodies = [answer.json() for answer, _ in readings]
    assert {answer.status_code for answer, _ in readings} == {200}
    fastest, *_ = sorted(seconds for _, seconds in readings)  # a busy machine makes some longer and none shorter
    assert 1.0 <= fastest < 2.0
    for body in bodies:
        assert body.keys() == {"cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "timestamp"}
        assert 0 <= body["cpu_used_pct"] <= 100
        assert 0 < body["mem_used_mib"] < body["mem_total_mib"]
        assert before_ms - 1 <= body["timestamp"] <= after_ms - 1000
    assert len({body["mem_total_mib"] for body in bodies}) == 1
    assert [body["cpu_count"] for body in bodies] == [limits.cpu_count for limits in sandboxes.values()]


def test_deleted_sandbox_is_not_found(opensandbox_server):
    sandbox_id = opensandbox_server.create("250m", "64Mi")
    opensandbox_server.delete(sandbox_id)
    for path in ("", "/diagnostics/inspect", "/endpoints/44772", "/proxy/44772/metrics"):
        answer = opensandbox_server.get(f"/v1/sandboxes/{sandbox_id}{path}")
        assert answer.status_code == 404
        assert answer.json()["code"].endswith("::SANDBOX_NOT_FOUND")
