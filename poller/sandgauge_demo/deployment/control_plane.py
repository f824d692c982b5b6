"""The lifecycle routes of the simulated server: create, list, get, delete, pause, resume, inspect, endpoints."""

import asyncio
from urllib.parse import parse_qsl

from aiohttp import web

from sandgauge_demo.deployment import bodies
from sandgauge_demo.deployment.create_request import InvalidRequestError, parse_create_request
from sandgauge_demo.deployment.direct import INGRESS_HEADER, DirectEndpoints
from sandgauge_demo.deployment.inspect_text import inspect_text
from sandgauge_demo.deployment.model import Runtime, SandboxState, SimulatedSandbox
from sandgauge_demo.deployment.registry import KILLED, SimulatedDeployment, WrongStateError
from sandgauge_demo.deployment.specs import SandboxChanges

VERSION = "1.1.1"

_DEFAULT_PAGE_SIZE = 20
_LARGEST_PAGE = 200
_LARGEST_PORT = 65_535
_KILLED_AND_REMOVED = (
    SandboxChanges(state=SandboxState.FAILED, exit_code=KILLED),
    SandboxChanges(state=SandboxState.UNKNOWN),
)
"""How a container that is being deleted looks to whoever asks meanwhile."""
_REMOVAL_STEP_S = 0.02
_BOOLEANS = dict.fromkeys(("true", "1", "t", "yes", "y", "on"), True) | dict.fromkeys(
    ("false", "0", "f", "no", "n", "off"), False
)


class ControlPlane:
    """Handlers over a deployment. Each expects the sandbox id in `match_info`, and lets UnknownSandboxError through."""

    def __init__(self, deployment: SimulatedDeployment, direct: DirectEndpoints) -> None:
        self._deployment = deployment
        self._direct = direct

    async def health(self, _request: web.Request) -> web.Response:
        """Say that the server is up."""
        return bodies.json_answer({"status": "healthy"})

    async def version(self, _request: web.Request) -> web.Response:
        """Say which server this simulates."""
        return bodies.json_answer({"version": VERSION})

    async def list(self, request: web.Request) -> web.Response:
        """List sandboxes, newest first, by states (any of them) and metadata (all of it)."""
        page, page_size = (
            _bounded_number(request, "page", 1, None),
            _bounded_number(request, "pageSize", _DEFAULT_PAGE_SIZE, _LARGEST_PAGE),
        )
        if isinstance(page, dict) or isinstance(page_size, dict):
            return bodies.invalid([detail for detail in (page, page_size) if isinstance(detail, dict)])
        try:
            metadata = dict(parse_qsl(request.query.get("metadata", ""), keep_blank_values=True, strict_parsing=True))
        except ValueError:
            return bodies.coded_error(400, "INVALID_METADATA_FORMAT", "metadata is not a list of key=value")
        states = {state.lower() for state in request.query.getall("state", [])}
        found = [
            sandbox
            for sandbox in self._deployment.newest_first()
            if (not states or sandbox.state.lower() in states) and metadata.items() <= sandbox.metadata.items()
        ]
        return bodies.json_answer(bodies.page_json(found, page=page, page_size=page_size))

    async def create(self, request: web.Request) -> web.Response:
        """Create a sandbox that runs at once."""
        try:
            spec = parse_create_request(await request.read(), request.content_type, self._deployment.runtime)
        except InvalidRequestError as error:
            return bodies.invalid(error.details)
        sandbox = self._deployment.create(spec)
        shown = bodies.sandbox_json(sandbox)
        del shown["image"]  # the answer to a create call alone lacks it
        return bodies.json_answer(shown, status=202)

    async def get(self, request: web.Request) -> web.Response:
        """Show a sandbox."""
        return bodies.json_answer(bodies.sandbox_json(self._sandbox(request)))

    async def delete(self, request: web.Request) -> web.Response:
        """Delete a sandbox; it is gone when this answers."""
        sandbox = self._sandbox(request)
        if sandbox.runtime is Runtime.DOCKER:
            for changes in _KILLED_AND_REMOVED:
                self._deployment.change(sandbox.id, changes)
                await asyncio.sleep(_REMOVAL_STEP_S)
        self._deployment.delete(sandbox.id)
        return web.Response(status=204)

    async def pause(self, request: web.Request) -> web.Response:
        """Pause a running sandbox."""
        sandbox = self._sandbox(request)
        try:
            self._deployment.pause(sandbox.id)
        except WrongStateError:
            return bodies.wrong_state(sandbox.runtime, SandboxState.RUNNING)
        return web.Response(status=202)

    async def resume(self, request: web.Request) -> web.Response:
        """Resume a paused sandbox."""
        sandbox = self._sandbox(request)
        try:
            self._deployment.resume(sandbox.id)
        except WrongStateError:
            return bodies.wrong_state(sandbox.runtime, SandboxState.PAUSED)
        return web.Response(status=202)

    async def inspect(self, request: web.Request) -> web.Response:
        """Show a sandbox's container or pod as text."""
        sandbox = self._sandbox(request)
        if not sandbox.has_container:
            return bodies.not_found(sandbox.runtime, sandbox.id)
        return web.Response(text=inspect_text(sandbox, self._direct.published_ports(sandbox.id)))

    async def endpoint(self, request: web.Request) -> web.Response:
        """Say where a sandbox's port is reached: directly, or through this server."""
        through_server = _BOOLEANS.get(request.query.get("use_server_proxy", "false").lower())
        if through_server is None:
            where, given = ("query", "use_server_proxy"), request.query["use_server_proxy"]
            return bodies.invalid([bodies.detail(where, given, "bool_parsing", "not a boolean")])
        port = port_of(request, self._deployment.runtime)
        if isinstance(port, web.Response):
            return port
        sandbox = self._sandbox(request)
        described = self._direct.describe(sandbox, port)
        if described is None:
            return bodies.no_address(sandbox.runtime)
        endpoint, headers = described
        if through_server:
            mounted_at = request.path.partition("/sandboxes/")[0]
            endpoint = f"{request.host}{mounted_at}/sandboxes/{sandbox.id}/proxy/{port}"
            headers = {name: value for name, value in headers.items() if name != INGRESS_HEADER}
        return bodies.json_answer(bodies.endpoint_json(endpoint, headers))

    def _sandbox(self, request: web.Request) -> SimulatedSandbox:
        return self._deployment.get(request.match_info["sandbox_id"])


def port_of(request: web.Request, runtime: Runtime) -> int | web.Response:
    """Read the port in a path, or return what the server says of a wrong one."""
    given = request.match_info["port"]
    try:
        port = int(given)
    except ValueError:
        return bodies.invalid([bodies.detail(("path", "port"), given, "int_parsing", "not an integer")])
    return port if 1 <= port <= _LARGEST_PORT else bodies.invalid_port(runtime)


def _bounded_number(request: web.Request, name: str, default: int, most: int | None) -> int | bodies.Json:
    """Read a query parameter of at least 1, or return what the server says of a wrong one."""
    given = request.query.get(name, str(default))
    try:
        number = int(given)
    except ValueError:
        return bodies.detail(("query", name), given, "int_parsing", "not an integer")
    if number < 1:
        return bodies.detail(("query", name), given, "greater_than_equal", "less than 1", {"ge": 1})
    if most is not None and number > most:
        return bodies.detail(("query", name), given, "less_than_equal", f"more than {most}", {"le": most})
    return number
