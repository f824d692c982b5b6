"""What the doctor says of a cluster: credentials, and the rights one by one."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandgauge_poller.config import Usage
from sandgauge_poller.doctor.cluster import examine
from sandgauge_poller.tracking.database import STORE_FILE
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_poller.tracking.progress import Progress, dump_progress
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import Allocation
from support.http_stub import StubServer
from support.pod_lists import pod_list, pod_metrics_list

TOKEN = "hunter2-token"
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods?limit=1"
PODS = "/api/v1/namespaces/{}/pods?limit=1"


@pytest.fixture
async def server() -> AsyncIterator[StubServer]:
    async with StubServer() as stub:
        stub.say(METRICS.format("monitor"), json=pod_metrics_list())
        stub.say(PODS.format("monitor"), json=pod_list(**{"continue": "more"}))
        yield stub


async def findings(
    server: StubServer, tmp_path: Path, *, user: object = None, cluster: object = None, **usage
) -> list[str]:
    file = tmp_path / "kubeconfig"
    context = {"cluster": "c", "user": "u", "namespace": "monitor"}
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": server.url, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {"token": TOKEN}}],
    }
    file.write_text(json.dumps(content))
    source = Usage(kind="kubernetes", kubeconfig=file, **usage)
    said = [str(finding) for finding in await asyncio.to_thread(lambda: list(examine(source, tmp_path, {})))]
    assert TOKEN not in str(said)
    return said


def remember(directory: Path, *designators: Identity) -> None:
    """Make a store that knows a sandbox for each designator."""
    with sqlite3.connect(directory / STORE_FILE) as connection:
        for step in MIGRATIONS:
            connection.executescript(step)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        for number, designator in enumerate(designators):
            progress = dump_progress(Progress(recorded_allocation=Allocation(designator=designator)))
            connection.execute("INSERT INTO sandbox VALUES ('o', ?, 'live', 0, ?)", (f"s-{number}", progress))
    connection.close()


async def test_each_right_has_a_line(server: StubServer, tmp_path: Path) -> None:
    assert await findings(server, tmp_path) == [
        "pass  usage source kubernetes: pods of metrics.k8s.io may be listed in monitor"
    ]
    assert await findings(server, tmp_path, pods=True) == [
        "pass  usage source kubernetes: pods of metrics.k8s.io may be listed in monitor",
        "pass  usage source kubernetes: pods may be listed in monitor",
    ]
    assert server.paths.count(PODS.format("monitor")) == 1


async def test_it_asks_where_sandboxes_are_known_to_run(server: StubServer, tmp_path: Path) -> None:
    remember(
        tmp_path,
        Identity("kubernetes", "x", "namespaces/b/pods/p"),
        Identity("kubernetes", "x", "namespaces/a/pods/p"),
        Identity("kubernetes", "x", "namespaces/a/pods/q"),
        Identity("kubernetes", "x", "nonsense"),
        Identity("docker-container", "x", "namespaces/c/pods/p"),
    )
    server.say(METRICS.format("a"), json=pod_metrics_list())
    server.say(METRICS.format("b"), status=403, json={"kind": "Status"})
    (said,) = await findings(server, tmp_path)
    assert said.startswith("fail  usage source kubernetes: the user may not list pods of metrics.k8s.io in namespace b")
    assert 'add the rule {apiGroups: ["metrics.k8s.io"], resources: ["pods"], verbs: ["list"]}' in said
    assert server.paths == [METRICS.format("a"), METRICS.format("b")]


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (404, "404 page not found\n", "install metrics-server"),
        (503, "service unavailable\n", "nothing behind it"),
        (401, "", "does not take the credentials"),
        (200, "<html>", "not with a list of pods"),
    ],
)
async def test_what_is_missing_is_said_with_its_cure(
    server: StubServer, tmp_path: Path, status: int, text: str, words: str
) -> None:
    server.say(METRICS.format("monitor"), status=status, text=text)
    (said,) = await findings(server, tmp_path)
    assert said.startswith("fail  ")
    assert words in said


async def test_credentials_that_cannot_be_used_are_all_that_is_said(server: StubServer, tmp_path: Path) -> None:
    (said,) = await findings(server, tmp_path, user={"exec": {"command": "aws"}}, pods=True)
    assert said.startswith(f"fail  usage source kubernetes: {tmp_path}/kubeconfig: users[0].user.exec: runs a plugin")
    assert said.endswith("name a user with token, tokenFile or a client certificate, such as a service account's")


async def test_a_server_that_is_not_checked_is_a_warning(server: StubServer, tmp_path: Path) -> None:
    unchecked = {"server": server.url.replace("http://", "https://"), "insecure-skip-tls-verify": True}
    warning, failure = await findings(server, tmp_path, cluster=unchecked)
    assert warning.startswith("warn  usage source kubernetes: the server's certificate is not checked")
    assert "no connection" in failure


async def test_outside_of_a_pod_the_cure_is_a_kubeconfig(tmp_path: Path) -> None:
    (found,) = await asyncio.to_thread(lambda: list(examine(Usage(kind="kubernetes"), tmp_path, {})))
    assert "this is no pod" in str(found)
    assert found.cure.endswith("name a kubeconfig")
