"""The server's proxy to the sandboxes: one pool of connections for all, and an error of its own for each failure."""

import asyncio

from aiohttp import web

from sandgauge_demo.deployment import bodies
from sandgauge_demo.deployment.control_plane import port_of
from sandgauge_demo.deployment.daemons import Daemons, ExecdDroppedError, ExecdRefusedError
from sandgauge_demo.deployment.direct import SECURE_ACCESS_HEADER
from sandgauge_demo.deployment.execd import ACCESS_TOKEN_HEADER
from sandgauge_demo.deployment.model import EXECD_PORT
from sandgauge_demo.deployment.registry import SimulatedDeployment


class Proxy:
    """Forwards to execd. A call holds a connection until its sandbox answers, even after its caller went away.

    `pool_size` connections are shared by all sandboxes (100 in the real server); `timeout_s` bounds the wait for one
    of them, and then the wait for the answer (180 s each).
    """

    def __init__(self, deployment: SimulatedDeployment, daemons: Daemons, *, pool_size: int, timeout_s: float) -> None:
        self._deployment = deployment
        self._daemons = daemons
        self._timeout_s = timeout_s
        self._pool = asyncio.Semaphore(pool_size)

    async def forward(self, request: web.Request) -> web.Response:
        """Answer with execd's answer, or with why there is none. Let UnknownSandboxError through."""
        port = port_of(request, self._deployment.runtime)
        if isinstance(port, web.Response):
            return port
        sandbox = self._deployment.get(request.match_info["sandbox_id"])
        if not sandbox.has_address:
            return bodies.no_address(sandbox.runtime)
        if sandbox.secure_access_token not in (None, request.headers.get(SECURE_ACCESS_HEADER)):
            return bodies.coded_error(401, "MISSING_OR_INVALID_SECURE_ACCESS", f"{SECURE_ACCESS_HEADER} is needed")
        try:
            await asyncio.wait_for(self._pool.acquire(), self._timeout_s)
        except TimeoutError:
            return bodies.coded_error(500, "GENERAL::UNKNOWN_ERROR", "no connection was free")
        try:
            if port != EXECD_PORT:
                return _refused()
            return await self._call(sandbox.id, request)
        finally:
            self._pool.release()

    async def _call(self, sandbox_id: str, request: web.Request) -> web.Response:
        path = "/" + request.match_info["path"]
        token = request.headers.get(ACCESS_TOKEN_HEADER)
        try:
            answer = await asyncio.wait_for(
                self._daemons.answer(sandbox_id, request.method, path, token), self._timeout_s
            )
        except ExecdRefusedError:
            return _refused()
        except ExecdDroppedError:
            return bodies.coded_error(502, "BACKEND_RESPONSE_FAILED", "the sandbox closed the connection")
        except TimeoutError:
            return bodies.coded_error(504, "BACKEND_TIMEOUT", "the sandbox did not answer in time")
        return answer.to_response()


def _refused() -> web.Response:
    return bodies.coded_error(502, "BACKEND_CONNECTION_FAILED", "nobody listens in the sandbox")
