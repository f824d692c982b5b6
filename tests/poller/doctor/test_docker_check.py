"""What the doctor says of a Docker daemon that is a deployment, and of a proxy in front of it."""

import asyncio

import pytest

from sandgauge_poller.config import Deployment
from sandgauge_poller.doctor.docker_daemon import examine
from support.http_stub import StubServer
from support.stub_engine import OLD, StubEngine, served_in_thread

NOBODY = "0" * 64
GRANTED = "Docker 28.5.2 lets its containers be inspected"
OLD_GRANTED = "Docker 20.10.24 lets its containers be inspected, and their usage be read"
RIGHTS = "; let the poller, or the proxy in between, have what docs/usage.md lists"


def line_of(endpoint):
    return str(examine(Deployment(name="machine", provider="docker", endpoint=endpoint)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, f"pass  deployment machine: {GRANTED}, and their usage be read"),
        ({"version": OLD}, f"warn  deployment machine: {OLD_GRANTED}; one container that hangs holds up"),
        ({"refused": ("/version",)}, "warn  deployment machine: Docker of an unknown version lets its containers be"),
        (
            {"refused": (f"{NOBODY}/json",)},
            f"fail  deployment machine: may not inspect containers (HTTP 403){RIGHTS}",
        ),
        (
            {"refused": ("/stats",)},
            f"warn  deployment machine: {GRANTED}, but not their stats, so what they use is unknown{RIGHTS}",
        ),
        (
            {"refused": ("/events",)},
            f"warn  deployment machine: {GRANTED}, but not its events followed, so no out-of-memory kill is counted",
        ),
        # The list of all containers is not needed.
        ({"refused": ("/containers/json",)}, f"pass  deployment machine: {GRANTED}, and their usage be read"),
    ],
)
def test_a_daemon_that_answers(tmp_path, changes, expected):
    stub = StubEngine(tmp_path / "docker.sock", **changes)
    with served_in_thread(stub):
        assert line_of(stub.endpoint).startswith(expected)
    assert all(NOBODY in path for path in stub.asked if "/containers/" in path)


@pytest.mark.parametrize(
    "answer", [{"status": 404, "text": "<html>"}, {"status": 404, "json": {"message": "page not found"}}, {"json": {}}]
)
async def test_what_is_no_daemon(answer):
    async with StubServer() as server:
        server.say(f"/containers/{NOBODY}/json", **answer)
        line = await asyncio.to_thread(line_of, server.url)
    assert line.startswith("fail  deployment machine: may not inspect containers (HTTP ")


def test_no_socket_another_file_and_nobody_there(tmp_path):
    missing = f"unix://{tmp_path}/docker.sock"
    assert line_of(missing).startswith(
        f"fail  deployment machine: {missing} cannot be opened: No such file or directory; start Docker"
    )
    (tmp_path / "file").write_text("")
    assert "cannot be opened: Connection refused" in line_of(f"unix://{tmp_path}/file")
    assert "gives no answer (connection)" in line_of("http://127.0.0.1:9")
