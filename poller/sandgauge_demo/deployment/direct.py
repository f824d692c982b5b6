"""The direct endpoints of simulated sandboxes: a port for each sandbox, or one gateway for all."""

import asyncio
from enum import StrEnum
from weakref import WeakSet

from aiohttp import web

from sandgauge_demo.deployment.daemons import Daemons, ExecdDroppedError, ExecdRefusedError
from sandgauge_demo.deployment.execd import ACCESS_TOKEN_HEADER
from sandgauge_demo.deployment.faults import Route
from sandgauge_demo.deployment.journal import Journal
from sandgauge_demo.deployment.listener import Listener
from sandgauge_demo.deployment.model import EXECD_PORT, HTTP_PORT, Runtime, SimulatedSandbox
from sandgauge_demo.deployment.registry import SimulatedDeployment

INGRESS_HEADER = "OpenSandbox-Ingress-To"
SECURE_ACCESS_HEADER = "OpenSandbox-Secure-Access"

_SHUTDOWN_TIMEOUT_S = 0.1


class EndpointForm(StrEnum):
    """Where a sandbox is reached without the server's proxy."""

    PORT = "port"
    """A port of its own: `127.0.0.1:<port>/proxy/44772` on Docker, whose port answers `/metrics` too, and
    `127.0.0.1:<port>` on Kubernetes, where the real server gives `<pod IP>:44772`."""
    GATEWAY_PATH = "gateway-path"
    """One gateway, the sandbox in the path: `127.0.0.1:<port>/<id>/44772`."""
    GATEWAY_HEADER = "gateway-header"
    """One gateway, the sandbox in a header: `127.0.0.1:<port>` and `OpenSandbox-Ingress-To: <id>-44772`."""


class DirectEndpoints:
    """The listeners behind the direct endpoints, and what the server says of them."""

    def __init__(
        self, deployment: SimulatedDeployment, daemons: Daemons, journal: Journal, form: EndpointForm, host: str
    ) -> None:
        self._deployment = deployment
        self._daemons = daemons
        self._journal = journal
        self._form = form
        self._host = host
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        application.on_response_prepare.append(_daemon_headers)
        self._runner = web.AppRunner(
            application, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_TIMEOUT_S
        )
        self._gateway: Listener | None = None
        self._listeners: dict[str, Listener] = {}
        self._sandbox_at: dict[int, str] = {}
        self._connections: dict[int, WeakSet[asyncio.Transport]] = {}

    async def start(self) -> None:
        """Open the gateway, or a port for each sandbox from now on."""
        await self._runner.setup()
        if self._form is EndpointForm.PORT:
            self._deployment.subscribe(self._changed)
        else:
            self._gateway = Listener(self._protocol, self._host)

    async def stop(self) -> None:
        """Close every listener and connection."""
        for listener in [*self._listeners.values(), *([self._gateway] if self._gateway else [])]:
            listener.close()
        await self._runner.cleanup()

    def published_ports(self, sandbox_id: str) -> dict[int, int]:
        """Return container port to host port, where the sandbox has a port of its own."""
        listener = self._listeners.get(sandbox_id)
        # The text shows a second one, for HTTP; nothing in a simulated sandbox listens there.
        return {} if listener is None else {EXECD_PORT: listener.port, HTTP_PORT: listener.port - 1}

    def describe(self, sandbox: SimulatedSandbox, port: int) -> tuple[str, dict[str, str]] | None:
        """Return the endpoint of a sandbox's port, without a scheme, and the headers to send to it.

        None where it has no address (yet). A container that exited keeps the address it had.
        """
        headers = {} if sandbox.secure_access_token is None else {SECURE_ACCESS_HEADER: sandbox.secure_access_token}
        if self._gateway is not None and self._form is EndpointForm.GATEWAY_PATH:
            return f"{self._gateway.address}/{sandbox.id}/{port}", headers
        if self._gateway is not None:
            return self._gateway.address, {**headers, INGRESS_HEADER: f"{sandbox.id}-{port}"}
        listener = self._listeners.get(sandbox.id)
        if listener is None:
            return None
        docker = sandbox.runtime is Runtime.DOCKER
        return (f"{listener.address}/proxy/{port}" if docker else listener.address), headers

    def _changed(self, sandbox_id: str) -> None:
        """Keep a port open for each sandbox that has an address; a resumed pod gets a new one."""
        sandbox = self._deployment.find(sandbox_id)
        listener = self._listeners.get(sandbox_id)
        if sandbox is not None and sandbox.has_address:
            if listener is None or not listener.is_open:
                self._listeners[sandbox_id] = listener = Listener(self._protocol, self._host)
                self._sandbox_at[listener.port] = sandbox_id
            return
        if listener is not None:
            listener.close()
            self._sandbox_at.pop(listener.port, None)
            for connection in self._connections.pop(listener.port, ()):
                connection.close()  # a container takes its connections along
        if sandbox is None or sandbox.runtime is not Runtime.DOCKER:
            self._listeners.pop(sandbox_id, None)

    def _protocol(self) -> asyncio.Protocol:
        if self._runner.server is None:
            raise RuntimeError("the direct endpoints are not started")
        return self._runner.server()

    def _target(self, request: web.BaseRequest) -> tuple[str, str]:
        """Return the sandbox that a request is for, and the path as its execd sees it."""
        if self._form is EndpointForm.GATEWAY_HEADER:
            return request.headers.get(INGRESS_HEADER, "").removesuffix(f"-{EXECD_PORT}"), request.path
        if self._form is EndpointForm.GATEWAY_PATH:
            sandbox_id, _, rest = request.path.lstrip("/").partition("/")
            return sandbox_id, rest.removeprefix(str(EXECD_PORT)) or "/"
        if request.transport is None:
            return "", request.path
        port = request.transport.get_extra_info("sockname")[1]
        self._connections.setdefault(port, WeakSet()).add(request.transport)
        return self._sandbox_at.get(port, ""), request.path.removeprefix(f"/proxy/{EXECD_PORT}") or "/"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        sandbox_id, path = self._target(request)
        with self._journal.record(
            Route.EXECD, sandbox_id, method=request.method, path=request.path, headers=request.headers
        ):
            if self._form is not EndpointForm.PORT and not self._may_enter(sandbox_id, request):
                return web.Response(status=401)
            token = request.headers.get(ACCESS_TOKEN_HEADER)
            try:
                return (await self._daemons.answer(sandbox_id, request.method, path, token)).to_response()
            except (ExecdRefusedError, ExecdDroppedError):
                if self._form is EndpointForm.PORT and request.transport is not None:
                    request.transport.abort()
                return web.Response(status=502)

    def _may_enter(self, sandbox_id: str, request: web.BaseRequest) -> bool:
        """Check, as a gateway does, the credential that the endpoint's answer named."""
        sandbox = self._deployment.find(sandbox_id)
        expected = None if sandbox is None else sandbox.secure_access_token
        return expected is None or request.headers.get(SECURE_ACCESS_HEADER) == expected


async def _daemon_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Leave out what execd does not send: it names no server, and an empty answer has no type."""
    response.headers.pop("Server", None)
    if response.headers.get("Content-Length", "0") == "0":
        response.headers.pop("Content-Type", None)
