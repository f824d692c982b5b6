"""What one suite of requests asks of a simulated and of a real deployment, so that their answers can be compared."""

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from support.answer_shape import BROKEN, SILENCE, Shape, shape_of
from support.direct_session import direct_session
from support.opensandbox_server import API_KEY_HEADER, OpenSandboxServer
from support.sandbox_images import SANDBOX_IMAGE
from support.simulated_osb import SimulatedOsb
from support.waiting import wait_until

EXECD_PORT = 44772
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
SPEC = {
    "image": {"uri": SANDBOX_IMAGE},
    "timeout": 600,
    "resourceLimits": {"cpu": "500m", "memory": "128Mi"},
    # Ends with the code that a test leaves in a file.
    "entrypoint": ["sh", "-c", "until test -s /end; do sleep 0.1; done; exit $(cat /end)"],
    "metadata": {"team": "rl"},
    "env": {"A": "b"},
}
_HANGS_AFTER_S = 12.0
"""An answer takes 1.0 s, more on a busy machine; what comes later counts as none."""


class ComparedDeployment(ABC):
    """A control plane with a key, and what a test does to its sandboxes from the outside."""

    def __init__(self, url: str, api_key: str) -> None:
        self.url = url
        self.api_key = api_key

    @abstractmethod
    def end(self, sandbox_id: str, exit_code: int) -> None:
        """Let the entrypoint end."""

    @abstractmethod
    def kill_execd(self, sandbox_id: str) -> None:
        """End the sandbox's daemon."""

    @abstractmethod
    def stop_execd(self, sandbox_id: str) -> None:
        """Halt the sandbox's daemon by SIGSTOP: its port still accepts connections."""

    def create(self, **changes: Any) -> str:
        """Create a sandbox and return its id once its daemon answers."""
        answer = self.send("POST", "/v1/sandboxes", json={**SPEC, **changes}, timeout=60)
        answer.raise_for_status()
        sandbox_id = str(answer.json()["id"])
        ping = f"/v1/sandboxes/{sandbox_id}/proxy/{EXECD_PORT}/ping"
        wait_until(lambda: self.send("GET", ping, timeout=60).ok, timeout_s=60, what=f"execd of {sandbox_id}")
        return sandbox_id

    def in_state(self, state: str) -> str:
        """Return the id of a fresh sandbox in a state of `STATES`."""
        if state == "unknown":
            return UNKNOWN_ID
        sandbox_id = self.create()
        match state:
            case "paused":
                self.send("POST", f"/v1/sandboxes/{sandbox_id}/pause", timeout=60).raise_for_status()
            case "exited 0" | "exited 1":
                self.end(sandbox_id, int(state[-1]))
            case "deleted":
                self.send("DELETE", f"/v1/sandboxes/{sandbox_id}", timeout=60).raise_for_status()
            case "execd killed":
                self.kill_execd(sandbox_id)
            case "execd stopped":
                self.stop_execd(sandbox_id)
        return sandbox_id

    def ask(self, method: str, path: str, **arguments: Any) -> Shape:
        """Return the shape of an answer."""
        try:
            return shape_of(self.send(method, path, **{"timeout": _HANGS_AFTER_S, **arguments}))
        except requests.ReadTimeout:
            return SILENCE
        except requests.ConnectionError:
            return BROKEN

    def ask_directly(self, sandbox_id: str, path: str) -> Shape | None:
        """Return the shape of the daemon's own answer at the endpoint that the control plane names; None without one.

        `{port}` in the path is the port's own address, beside the prefix that Docker's endpoints have.
        """
        named = self.send("GET", f"/v1/sandboxes/{sandbox_id}/endpoints/{EXECD_PORT}")
        if not named.ok:
            return None
        address, _, prefix = named.json()["endpoint"].partition("/")
        return self.ask("GET", f"http://{address}{path.format(prefix=prefix)}", headers={})

    def send(self, method: str, path: str, *, headers: dict[str, str] | None = None, **arguments: Any) -> Any:
        """Send one request, by default with the key; a path that is a whole URL is taken as it is."""
        url = path if path.startswith("http:") else self.url + path
        given = {API_KEY_HEADER: self.api_key} if headers is None else headers
        with direct_session() as session:
            return session.request(method, url, headers=given, **{"timeout": _HANGS_AFTER_S, **arguments})

    def clear(self) -> None:
        """Delete the sandboxes that were made of `SPEC`."""
        listed = self.send("GET", "/v1/sandboxes?pageSize=200&metadata=team%3Drl").json()["items"]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda one: self.send("DELETE", f"/v1/sandboxes/{one['id']}", timeout=60), listed))


class RealDeployment(ComparedDeployment):
    """opensandbox-server with containers: what happens in them is done by `docker exec`."""

    def __init__(self, server: OpenSandboxServer) -> None:
        super().__init__(server.endpoint, server.api_key)
        self._server = server

    def end(self, sandbox_id: str, exit_code: int) -> None:
        # The entrypoint takes the place of the launcher, so it is the container's first process.
        self._server.inside(sandbox_id, f"echo {exit_code} > /end")
        wait_until(lambda: not self._server.is_running(sandbox_id), timeout_s=60, what="the entrypoint's end")

    def kill_execd(self, sandbox_id: str) -> None:
        self._server.signal_execd(sandbox_id, "KILL")

    def stop_execd(self, sandbox_id: str) -> None:
        self._server.signal_execd(sandbox_id, "STOP")


class SimulatedTwin(ComparedDeployment):
    """The simulated deployment, over its control routes."""

    def __init__(self, osb: SimulatedOsb) -> None:
        super().__init__(osb.url, osb.api_key or "")
        self._osb = osb

    def end(self, sandbox_id: str, exit_code: int) -> None:
        self._osb.end(sandbox_id, exit_code=exit_code)

    def kill_execd(self, sandbox_id: str) -> None:
        self._osb.kill_execd(sandbox_id)

    def stop_execd(self, sandbox_id: str) -> None:
        self._osb.stop_execd(sandbox_id)
