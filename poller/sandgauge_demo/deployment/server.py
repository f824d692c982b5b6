"""The simulated deployment as a server: the control plane on one port of loopback, direct endpoints on others."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiohttp import web

from sandgauge_demo.deployment import bodies
from sandgauge_demo.deployment.control import PREFIX, control_application
from sandgauge_demo.deployment.control_plane import ControlPlane
from sandgauge_demo.deployment.daemons import Daemons
from sandgauge_demo.deployment.direct import DirectEndpoints, EndpointForm
from sandgauge_demo.deployment.faults import Fault, FaultBook, Route
from sandgauge_demo.deployment.journal import Journal
from sandgauge_demo.deployment.listener import Listener
from sandgauge_demo.deployment.model import ExecdKind, Runtime, SimulatedNode
from sandgauge_demo.deployment.proxy import Proxy
from sandgauge_demo.deployment.registry import SimulatedDeployment, UnknownSandboxError

API_KEY_HEADER = "OPEN-SANDBOX-API-KEY"

_PROXIED_METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
_OPEN_ROUTES = (Route.HEALTH, Route.VERSION)
_HANG_S = 180.0
_SHUTDOWN_TIMEOUT_S = 0.1

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSettings:
    """How a simulated deployment is set up. The defaults are the real server's, on Docker, without a key.

    `proxy_needs_key` puts authentication in front of the proxied paths too. `control` opens the control routes.
    """

    host: str = "127.0.0.1"
    port: int = 0
    api_key: str | None = field(default=None, repr=False)
    proxy_needs_key: bool = False
    runtime: Runtime = Runtime.DOCKER
    execd_kind: ExecdKind = ExecdKind.RUNC
    nodes: tuple[SimulatedNode, ...] = (SimulatedNode(),)
    endpoint_form: EndpointForm = EndpointForm.PORT
    metrics_delay_s: float = 1.0
    proxy_pool_size: int = 100
    proxy_timeout_s: float = 180.0
    control: bool = False


class SimulatedOpenSandbox:
    """A running simulated deployment, as an asynchronous context manager.

    Its parts are the handle of a test in the same event loop: `deployment` (create, delete, pause, change),
    `faults` (put other answers in place) and `journal` (what was asked).
    """

    def __init__(
        self, settings: DeploymentSettings = DeploymentSettings(), *, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.deployment = SimulatedDeployment(
            clock=clock, runtime=settings.runtime, execd_kind=settings.execd_kind, nodes=settings.nodes
        )
        self.faults = FaultBook()
        self.journal = Journal()
        daemons = Daemons(self.deployment, self.faults, metrics_delay_s=settings.metrics_delay_s)
        self._direct = DirectEndpoints(self.deployment, daemons, self.journal, settings.endpoint_form, settings.host)
        self._proxy = Proxy(
            self.deployment, daemons, pool_size=settings.proxy_pool_size, timeout_s=settings.proxy_timeout_s
        )
        self._runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=_SHUTDOWN_TIMEOUT_S)
        self.url = ""
        """Base URL of the control plane, known once it is started."""

    async def __aenter__(self) -> Self:
        """Start listening."""
        await self._runner.setup()
        if self._runner.server is None:
            raise RuntimeError("the server did not start")
        await self._direct.start()
        self._listener = Listener(self._runner.server, self.settings.host, self.settings.port)
        self.url = f"http://{self._listener.address}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening and close every connection."""
        self._listener.close()
        await self._direct.stop()
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        plane = ControlPlane(self.deployment, self._direct)
        application = web.Application(middlewares=[_framework_errors])
        application.on_response_prepare.append(_server_headers)
        if self.settings.control:
            application.add_subapp(PREFIX, control_application(self.deployment, self.faults, self.journal))
        for mount in ("", "/v1"):
            sandboxes = f"{mount}/sandboxes"
            one = f"{sandboxes}/{{sandbox_id}}"
            self._route(application, "GET", sandboxes, Route.LIST, plane.list)
            self._route(application, "POST", sandboxes, Route.CREATE, plane.create)
            self._route(application, "GET", one, Route.GET, plane.get)
            self._route(application, "DELETE", one, Route.DELETE, plane.delete)
            self._route(application, "POST", f"{one}/pause", Route.PAUSE, plane.pause)
            self._route(application, "POST", f"{one}/resume", Route.RESUME, plane.resume)
            self._route(application, "GET", f"{one}/diagnostics/inspect", Route.INSPECT, plane.inspect)
            self._route(application, "GET", f"{one}/endpoints/{{port}}", Route.ENDPOINT, plane.endpoint)
            for method in _PROXIED_METHODS:
                path = f"{one}/proxy/{{port}}/{{path:.*}}"
                self._route(application, method, path, Route.PROXY, self._proxy.forward)
        self._route(application, "GET", "/health", Route.HEALTH, plane.health)
        self._route(application, "GET", "/version", Route.VERSION, plane.version)
        return application

    def _route(self, application: web.Application, method: str, path: str, route: Route, handler: Handler) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            sandbox_id = request.match_info.get("sandbox_id")
            seen = self.journal.record(
                route, sandbox_id, method=request.method, path=request.path, headers=request.headers
            )
            with seen:
                return await self._answer(route, sandbox_id, handler, request)

        application.router.add_route(method, path, handle)

    async def _answer(
        self, route: Route, sandbox_id: str | None, handler: Handler, request: web.Request
    ) -> web.StreamResponse:
        refusal = self._refusal(route, request)
        if refusal is not None:
            return refusal
        fault = self.faults.take(route, sandbox_id)
        if fault is not None and (instead := await _suffer(fault, request)) is not None:
            return instead
        try:
            return await handler(request)
        except UnknownSandboxError as error:
            return bodies.not_found(self.deployment.runtime, str(error))

    def _refusal(self, route: Route, request: web.Request) -> web.Response | None:
        expected, given = self.settings.api_key, request.headers.get(API_KEY_HEADER)
        is_open = route in _OPEN_ROUTES or (route is Route.PROXY and not self.settings.proxy_needs_key)
        if expected is None or is_open or given == expected:
            return None
        if not given:
            return bodies.coded_error(401, "MISSING_API_KEY", f"{API_KEY_HEADER} is missing")
        return bodies.coded_error(401, "INVALID_API_KEY", f"{API_KEY_HEADER} is wrong")


async def _suffer(fault: Fault, request: web.Request) -> web.StreamResponse | None:
    """Wait as a fault says, and return the answer it gives; None where the usual answer follows."""
    await asyncio.sleep(_HANG_S if fault.hang else fault.delay_s)
    if fault.hang or fault.drop:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=502)
    if fault.status is None:
        return None
    headers = {"Content-Type": fault.content_type, **fault.headers}
    return web.Response(status=fault.status, body=fault.body.encode(), headers=headers)


@web.middleware
async def _framework_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer a path or method that does not exist as the real server's framework does."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        allowed = [method for method in _PROXIED_METHODS if method in error.allowed_methods]
        return bodies.json_answer({"detail": "Method Not Allowed"}, status=405, headers={"Allow": ", ".join(allowed)})
    except web.HTTPNotFound:
        return bodies.json_answer({"detail": "Not Found"}, status=404)


async def _server_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Set the headers that the real server sets on every answer."""
    response.headers["Server"] = "uvicorn"
    response.headers["Vary"] = "Origin"
    response.headers["X-Request-ID"] = request.headers.get("X-Request-ID") or uuid.uuid4().hex
    if response.headers.get("Content-Length", "0") == "0":
        response.headers.pop("Content-Type", None)
