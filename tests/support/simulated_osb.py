"""A simulated OpenSandbox deployment beside the test: in a thread of its process, or in a process that can be killed.

Both are steered in the same way, over the deployment's control routes, so every method is safe from any thread. A test
that runs in an event loop of its own can use `sandgauge_demo.deployment.SimulatedOpenSandbox` directly.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from sandgauge_demo.deployment import (
    DeploymentSettings,
    Fault,
    Route,
    SandboxChanges,
    SandboxSpec,
    SandboxState,
    SeenRequest,
    SimulatedOpenSandbox,
)
from support.direct_session import direct_session
from support.served_in_thread import ServedInThread

_TIMEOUT_S = 60.0


class SimulatedOsb:
    """The handle of a running deployment; `url` is its control plane's, `api_key` what callers must send."""

    def __init__(self, url: str, api_key: str | None) -> None:
        self.url = url
        self.api_key = api_key
        self._http = direct_session()

    def close(self) -> None:
        self._http.close()

    def create(self, **spec: Any) -> str:
        """Create a sandbox from the fields of SandboxSpec and return its id."""
        created = self._call("POST", "sandboxes", SandboxSpec(**spec))
        return str(created["id"])

    def change(self, sandbox_id: str, **changes: Any) -> None:
        """Change a sandbox by the fields of SandboxChanges."""
        self._call("PATCH", f"sandboxes/{sandbox_id}", SandboxChanges(**changes))

    def delete(self, sandbox_id: str) -> None:
        self._call("DELETE", f"sandboxes/{sandbox_id}")

    def pause(self, sandbox_id: str) -> None:
        self.change(sandbox_id, state=SandboxState.PAUSED)

    def resume(self, sandbox_id: str, *, node: str | None = None) -> None:
        self.change(sandbox_id, state=SandboxState.RUNNING, node=node)

    def expire(self, sandbox_id: str) -> None:
        self.change(sandbox_id, expires_at=0.0)

    def kill_execd(self, sandbox_id: str) -> None:
        self.change(sandbox_id, execd_alive=False)

    def stop_execd(self, sandbox_id: str) -> None:
        """Halt execd as SIGSTOP does."""
        self.change(sandbox_id, execd_stopped=True)

    def continue_execd(self, sandbox_id: str) -> None:
        self.change(sandbox_id, execd_stopped=False)

    def end(self, sandbox_id: str, *, exit_code: int = 0, oom_killed: bool = False) -> None:
        """Let the entrypoint end; the record stays."""
        state = SandboxState.FAILED if exit_code else SandboxState.TERMINATED
        self.change(sandbox_id, state=state, exit_code=exit_code, oom_killed=oom_killed)

    def fault(self, route: Route, sandbox_id: str | None = None, **fault: Any) -> None:
        """Put a Fault in force: for one sandbox, or for the whole route."""
        self._call("POST", "faults", Fault(route=route, sandbox_id=sandbox_id, **fault))

    def clear_faults(self, route: Route | None = None, sandbox_id: str | None = None) -> None:
        self._call("DELETE", "faults", route=route, sandbox_id=sandbox_id)

    def requests(self, route: Route | None = None, sandbox_id: str | None = None) -> list[SeenRequest]:
        """Return what was asked, oldest first, with the headers it came with."""
        return [SeenRequest(**seen) for seen in self._call("GET", "requests", route=route, sandbox_id=sandbox_id)]

    def count(self, route: Route, sandbox_id: str | None = None) -> int:
        return int(self._call("GET", "requests/count", route=route, sandbox_id=sandbox_id)["count"])

    def most_in_flight(self, route: Route) -> int:
        return int(self._call("GET", "requests/count", route=route)["most_in_flight"])

    def wait_for(
        self, at_least: int, route: Route, sandbox_id: str | None = None, *, timeout_s: float = _TIMEOUT_S
    ) -> int:
        """Return once so many requests came since the start; raise TimeoutError when they do not."""
        counted = self._call(
            "GET", "requests/count", route=route, sandbox_id=sandbox_id, at_least=at_least, timeout_s=timeout_s
        )
        if counted["count"] < at_least:
            raise TimeoutError(f"{counted['count']} of {at_least} {route} requests for {sandbox_id or 'all'}")
        return int(counted["count"])

    def _call(self, method: str, path: str, content: Any = None, **query: Any) -> Any:
        answer = self._http.request(
            method,
            f"{self.url}/_control/{path}",
            params={name: value for name, value in query.items() if value is not None},
            data=None if content is None else content.model_dump_json(exclude_unset=True),
            timeout=_TIMEOUT_S + float(query.get("timeout_s", 0)),
        )
        if not answer.ok:
            raise ValueError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None


class _ServedOsb(ServedInThread):
    """The deployment itself; `url` is there once it serves."""

    def __init__(self, settings: DeploymentSettings) -> None:
        super().__init__("simulated-osb")
        self._settings = settings
        self.url = ""

    async def _serve(self) -> None:
        async with SimulatedOpenSandbox(self._settings) as server:
            self.url = server.url
            self._started.set()
            await self._ended.wait()


@contextmanager
def osb_in_thread(settings: DeploymentSettings | None = None) -> Iterator[SimulatedOsb]:
    """Run a deployment in a thread of this process. Where nothing else is said a reading blocks a tenth of a second.

    The real one blocks a whole, which leaves of its two too little for a busy machine.
    """
    settings = replace(settings or DeploymentSettings(metrics_delay_s=0.1), control=True)
    with _ServedOsb(settings) as served, closing(SimulatedOsb(served.url, settings.api_key)) as osb:
        yield osb


class OsbProcess:
    """A deployment in a process of its own. `arguments` are those of `python -m sandgauge_demo.deployment`."""

    def __init__(self, arguments: Sequence[str] = (), *, api_key: str | None = None) -> None:
        key = [] if api_key is None else ["--api-key-env", "SIMULATED_OSB_API_KEY"]
        environment = {**os.environ, "SIMULATED_OSB_API_KEY": api_key or ""}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sandgauge_demo.deployment", "--control", *key, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.osb = SimulatedOsb(self._process.stdout.readline().strip(), api_key)
        self.pid = self._process.pid
        if not self.osb.url:
            raise RuntimeError(f"the simulated deployment ended with {self._ended()}")

    def stop(self) -> int:
        """Ask it to end, as Ctrl-C does, and return its exit code."""
        self._process.terminate()
        return self._ended()

    def kill(self) -> int:
        """End it at once, as a crash would; start another on the same port with `--port`."""
        self._process.kill()
        return self._ended()

    def _ended(self) -> int:
        self.osb.close()
        code = self._process.wait(_TIMEOUT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


@contextmanager
def osb_in_process(arguments: Sequence[str] = (), *, api_key: str | None = None) -> Iterator[OsbProcess]:
    """Run a deployment in a process of its own; the test may stop or kill it."""
    process = OsbProcess(arguments, api_key=api_key)
    try:
        yield process
    finally:
        process.kill()
