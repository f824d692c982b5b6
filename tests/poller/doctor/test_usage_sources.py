"""What the doctor says of a usage source, as one line."""

import pytest

from sandgauge_poller.config import Usage
from sandgauge_poller.doctor import usage
from support.stub_engine import OLD, StubContainer, StubEngine, served_in_thread

RIGHTS = "; let the poller, or the proxy in between, have what docs/usage.md lists"


@pytest.fixture
def stub(tmp_path):
    containers = [StubContainer(f"{number:064x}", f"s-{number}") for number in (1, 2)]
    return StubEngine(tmp_path / "docker.sock", containers=containers)


def line_of(endpoint):
    return str(usage.examine(Usage(kind="docker", endpoint=endpoint)))


READ = "Docker 28.5.2 lists 2 sandboxes and lets their stats be read"
OLD_READ = READ.replace("28.5.2", "20.10.24")
UNKNOWN = READ.replace("28.5.2", "of an unknown version")
HANGS = "; one container that hangs holds up the readings of all; update Docker to 24.0.7 or newer"
NO_EVENTS = f", but not its events, so no out-of-memory kill is counted{RIGHTS}"
NO_VERSION = (
    ", but does not tell its version; let GET /version through: an engine before 24.0.7 has to be asked otherwise"
)


@pytest.mark.parametrize(
    ("changes", "verdict", "expected"),
    [
        ({}, "pass", READ),
        ({"version": OLD}, "warn", OLD_READ + HANGS),
        ({"refused": ("/events",)}, "warn", READ + NO_EVENTS),
        ({"refused": ("/version",)}, "warn", UNKNOWN + NO_VERSION),
        ({"refused": ("/stats",)}, "fail", "may not read stats of containers (HTTP 403)" + RIGHTS),
        ({"refused": ("/json",)}, "fail", "may not list containers (HTTP 403)" + RIGHTS),
    ],
)
def test_a_daemon_that_answers(stub, changes, verdict, expected):
    for name, value in changes.items():
        setattr(stub, name, value)
    with served_in_thread(stub):
        assert line_of(stub.endpoint) == f"{verdict}  usage source {stub.endpoint}: {expected}"


def test_a_socket_that_is_not_there(tmp_path):
    endpoint = f"unix://{tmp_path}/none.sock"
    assert line_of(endpoint) == (
        f"fail  usage source {endpoint}: cannot be opened: No such file or directory; let the poller's user open the"
        " socket, or name a proxy's; see docs/usage.md"
    )


def test_a_port_where_nobody_listens():
    assert line_of("http://127.0.0.1:9") == (
        "fail  usage source http://127.0.0.1:9: gives no answer (connection); start the daemon, or name its address and"
        " certificates as seen from here"
    )
