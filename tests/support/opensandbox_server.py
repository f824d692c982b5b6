"""The real opensandbox-server, with sandboxes that are containers on a Docker daemon of the tests' own."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from support.build_cache import REPOSITORY, building, fingerprint
from support.direct_session import direct_session
from support.docker_daemon import DockerDaemon
from support.sandbox_images import EXECD_IMAGE, SANDBOX_IMAGE
from support.waiting import wait_until

REQUIREMENTS = REPOSITORY / "constraints" / "opensandbox-server.txt"
PORT = 18080
API_KEY = "key-of-the-control-plane"
API_KEY_HEADER = "OPEN-SANDBOX-API-KEY"
# The published ports must be reachable from the host: the daemon's address, where the server itself listens too.
CONFIGURATION = """
[server]
host = "{address}"
port = {port}
api_key = "{api_key}"
[runtime]
type = "docker"
execd_image = "{execd_image}"
[docker]
network_mode = "bridge"
port_range_min = 41000
port_range_max = 41999
publish_host = "{address}"
[store]
type = "sqlite"
path = "{folder}/osb.db"
"""


class ServerProcess:
    """The server's process, which can be started again after its end: same address, same state."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._command = command
        self._environment = environment
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it answers some seconds later."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def end(self, number: signal.Signals) -> None:
        """Send it a signal and wait for its end; nothing happens when it has ended."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=60)
            self._process = None


@dataclass(frozen=True, slots=True)
class OpenSandboxServer:
    """A running control plane: its address, and what a test asks of it."""

    endpoint: str
    api_key: str
    daemon: DockerDaemon
    process: ServerProcess

    def start(self) -> None:
        """Start the server, again after `kill`, and return once it answers."""
        self.process.start()
        wait_until(lambda: healthy(self), timeout_s=120, what="a healthy opensandbox-server")

    def kill(self) -> None:
        """End the server as a crash does; the sandboxes live on."""
        self.process.end(signal.SIGKILL)

    def create(self, cpu: str | None, memory: str | None, **more: Any) -> str:
        """Create a sandbox with the given limits (Kubernetes quantities; None for no limit) and return its id.

        `more` goes into the request as it is, for example `metadata`, `env` or another `entrypoint`.
        """
        limits = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
        body = {
            "image": {"uri": SANDBOX_IMAGE},
            "timeout": 600,
            "resourceLimits": limits,
            "entrypoint": ["sh", "-c", "sleep 600"],
            **more,
        }
        answer = self.request("POST", "/v1/sandboxes", json=body)
        answer.raise_for_status()
        return str(answer.json()["id"])

    def delete(self, sandbox_id: str) -> None:
        """Delete a sandbox; it is gone when this returns."""
        self.request("DELETE", f"/v1/sandboxes/{sandbox_id}").raise_for_status()

    def inside(self, sandbox_id: str, script: str) -> str:
        """Run a shell script in a sandbox and return what it prints."""
        return self.daemon.docker("exec", f"sandbox-{sandbox_id}", "sh", "-c", script)

    def signal_execd(self, sandbox_id: str, signal: str) -> None:
        """Send a signal such as `STOP` to a sandbox's execd."""
        self.inside(sandbox_id, f"kill -{signal} $(pidof execd)")

    def is_running(self, sandbox_id: str) -> bool:
        """Whether a sandbox's container runs."""
        return self.daemon.docker("inspect", "--format", "{{.State.Running}}", f"sandbox-{sandbox_id}") == "true"

    def get(self, path: str) -> requests.Response:
        """Ask with the key for a path such as `/v1/sandboxes/<id>`; an error is an answer too."""
        return self.request("GET", path)

    def request(self, method: str, path: str, **arguments: Any) -> requests.Response:
        """Send one request with the key; 60 s cover the slowest creation on a busy machine."""
        with direct_session() as session:
            headers = {API_KEY_HEADER: self.api_key}
            return session.request(method, self.endpoint + path, headers=headers, timeout=60, **arguments)


@contextlib.contextmanager
def running_opensandbox_server(daemon: DockerDaemon, folder: Path) -> Iterator[OpenSandboxServer]:
    """Run the server in the daemon's network, where the sandboxes' own addresses can be reached."""
    program = installed_server()
    config, log = folder / "sandbox.toml", folder / "opensandbox-server.log"
    config.write_text(
        CONFIGURATION.format(address=daemon.address, port=PORT, api_key=API_KEY, execd_image=EXECD_IMAGE, folder=folder)
    )
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "DOCKER_HOST": daemon.host}
    process = ServerProcess(daemon.inside(str(program), "--config", str(config)), environment, log)
    server = OpenSandboxServer(
        endpoint=f"http://{daemon.address}:{PORT}", api_key=API_KEY, daemon=daemon, process=process
    )
    try:
        server.start()
        yield server
    except TimeoutError as error:
        error.add_note(log.read_text()[-4000:])
        raise
    finally:
        process.end(signal.SIGTERM)


def healthy(server: OpenSandboxServer) -> bool:
    """Whether the server answers."""
    try:
        return server.get("/health").ok
    except (requests.ConnectionError, requests.Timeout):
        return False


def installed_server() -> Path:
    """Install the pinned server, once, into a virtual environment of its own: its packages are not the project's."""
    name = f"opensandbox-server-venv-{fingerprint([REQUIREMENTS.read_bytes(), sys.version.encode()])}"
    with building(name) as folder:
        complete = folder / ".complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            venv.create(folder, with_pip=True)
            subprocess.run(
                (
                    *(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                    *("--require-hashes", "--no-deps", "-r", REQUIREMENTS),
                ),
                check=True,
            )
            complete.touch()
    return folder / "bin" / "opensandbox-server"
