"""The execd of every simulated sandbox: what it answers, after its block, in whatever state the sandbox is by then."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import web

from sandgauge_demo.deployment.execd import ACCESS_TOKEN_HEADER, ACCESS_TOKEN_VARIABLE, CONTENT_TYPE, metrics_body
from sandgauge_demo.deployment.faults import FaultBook, Route
from sandgauge_demo.deployment.model import SimulatedSandbox
from sandgauge_demo.deployment.registry import SimulatedDeployment


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecdAnswer:
    """One answer of execd, before any proxy."""

    status: int = 200
    body: bytes = b""
    content_type: str | None = CONTENT_TYPE
    headers: dict[str, str] = field(default_factory=dict)

    def to_response(self) -> web.Response:
        """Return it as the answer of a server."""
        content_type = {} if self.content_type is None else {"Content-Type": self.content_type}
        return web.Response(status=self.status, body=self.body, headers={**content_type, **self.headers})


class ExecdRefusedError(Exception):
    """Nobody listens: execd was killed, or there is no container."""


class ExecdDroppedError(Exception):
    """The connection closed before an answer: the sandbox or its execd ended meanwhile."""


_NOT_FOUND = ExecdAnswer(status=404, body=b"404 page not found", content_type="text/plain")
_UNAUTHORIZED = ExecdAnswer(
    status=401, body=b'{"error":"Unauthorized: invalid or missing header ' + ACCESS_TOKEN_HEADER.encode() + b'"}'
)


class Daemons:
    """Answers for all sandboxes of a deployment. `metrics_delay_s` is the block of a reading; the real one is 1.0 s."""

    def __init__(self, deployment: SimulatedDeployment, faults: FaultBook, *, metrics_delay_s: float) -> None:
        self._deployment = deployment
        self._faults = faults
        self._metrics_delay_s = metrics_delay_s
        self._changes: dict[str, asyncio.Event] = {}
        deployment.subscribe(self._changed)

    async def answer(self, sandbox_id: str, method: str, path: str, access_token: str | None) -> ExecdAnswer:
        """Answer a request to a sandbox; `path` begins with a slash.

        Raise ExecdRefusedError or ExecdDroppedError where no answer comes. A frozen sandbox answers once it is
        resumed.
        """
        sandbox = self._deployment.find(sandbox_id)
        if sandbox is None or not sandbox.execd_alive or not sandbox.has_address:
            raise ExecdRefusedError
        fault = self._faults.take(Route.EXECD, sandbox_id)
        if fault is not None:
            await self._until(sandbox_id, fault.delay_s)
            if fault.drop:
                raise ExecdDroppedError
            if fault.hang:
                await self._until(sandbox_id, None)
            if fault.status is not None:
                return ExecdAnswer(
                    status=fault.status,
                    body=fault.body.encode(),
                    content_type=fault.content_type,
                    headers=fault.headers,
                )
        expected_token = sandbox.environment.get(ACCESS_TOKEN_VARIABLE)
        if expected_token and access_token != expected_token:
            await self._until(sandbox_id, 0.0)
            return _UNAUTHORIZED
        if method == "GET" and path == "/metrics":
            return await self._metrics(sandbox_id)
        await self._until(sandbox_id, 0.0)
        return ExecdAnswer(content_type=None) if path == "/ping" else _NOT_FOUND

    async def _metrics(self, sandbox_id: str) -> ExecdAnswer:
        read_at = self._deployment.clock()
        sandbox = await self._until(sandbox_id, self._metrics_delay_s)
        body = metrics_body(sandbox, deployment_started_at=self._deployment.started_at, read_at=read_at)
        return ExecdAnswer(body=body)

    async def _until(self, sandbox_id: str, delay_s: float | None) -> SimulatedSandbox:
        """Return the sandbox once the delay is over and it is not frozen; None is for ever."""
        loop = asyncio.get_running_loop()
        due = None if delay_s is None else loop.time() + delay_s
        while True:
            sandbox = self._deployment.find(sandbox_id)
            if sandbox is None or not sandbox.execd_alive or not sandbox.has_address:
                raise ExecdDroppedError
            remaining = None if due is None or sandbox.is_frozen else due - loop.time()
            if remaining is not None and remaining <= 0:
                return sandbox
            changed = self._changes.setdefault(sandbox_id, asyncio.Event())
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await changed.wait()

    def _changed(self, sandbox_id: str) -> None:
        if waiting := self._changes.pop(sandbox_id, None):
            waiting.set()
