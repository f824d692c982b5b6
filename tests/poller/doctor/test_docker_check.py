"""What the doctor says of a Docker daemon, and of a proxy in front of it."""

import asyncio

import pytest

from sandgauge_poller.config import Deployment
from sandgauge_poller.doctor.docker_daemon import examine
from support.stub_docker import StubDocker, no_such_container

NOBODY = "sandgauge-doctor"
INSPECT, STATS = f"/v1.41/containers/{NOBODY}/json", f"/v1.41/containers/{NOBODY}/stats?stream=false&one-shot=true"
REFUSED = {"status": 403, "text": "Forbidden"}


def findings(endpoint):
    return [str(finding) for finding in examine(Deployment(name="machine", provider="docker", endpoint=endpoint))]


@pytest.fixture
async def docker():
    async with StubDocker() as server:
        for path in (INSPECT, STATS):
            server.say(path, status=404, json=no_such_container(NOBODY))
        yield server


async def of(docker):
    return await asyncio.to_thread(findings, docker.url)


async def test_all_is_well_and_no_container_is_looked_at(docker):
    assert await of(docker) == ["pass  deployment machine: Docker 20.10.24 (API 1.41) lets its containers be inspected"]
    assert docker.paths == ["/version", INSPECT, STATS]


async def test_a_proxy_that_keeps_the_version_to_itself(docker):
    docker.say("/version", **REFUSED)
    for path in (INSPECT, STATS):
        docker.say(path.removeprefix("/v1.41"), status=404, json=no_such_container(NOBODY))
    assert "Docker of an unknown version lets its containers be inspected" in (await of(docker))[0]


@pytest.mark.parametrize(
    "answer",
    [REFUSED, {"status": 404, "text": "<html>"}, {"status": 404, "json": {"message": "page not found"}}, {"json": {}}],
)
async def test_containers_that_may_not_be_inspected(docker, answer):
    docker.say(INSPECT, **answer)
    (line,) = await of(docker)
    assert line.startswith("fail  deployment machine: may not inspect containers: HTTP")
    assert "let GET /containers/{name}/json pass" in line


async def test_stats_that_are_refused(docker):
    docker.say(STATS, **REFUSED)
    _, line = await of(docker)
    assert line.startswith("warn  deployment machine: usage is unknown, since stats are refused: HTTP 403")


def test_no_socket_another_file_and_nobody_behind_it(tmp_path):
    (line,) = findings(f"unix://{tmp_path}/docker.sock")
    assert f"unreachable: no socket at {tmp_path}/docker.sock" in line
    assert "mounted" in line
    (tmp_path / "file").write_text("")
    assert "is no socket" in findings(f"unix://{tmp_path}/file")[0]
    assert "unreachable: connection" in findings("http://127.0.0.1:9")[0]
