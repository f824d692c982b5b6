"""The control routes of a simulated deployment: what its Python handle can do, as JSON for another process.

Below `/_control/`: `POST sandboxes` (a SandboxSpec), `PATCH sandboxes/{id}` (SandboxChanges), `DELETE sandboxes/{id}`,
`POST faults` (a Fault), `DELETE faults[?route=&sandbox_id=]`, `GET requests[?route=&sandbox_id=]`, and
`GET requests/count?route=[&sandbox_id=][&at_least=&timeout_s=]`, which waits for that many.
"""

from dataclasses import asdict
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from sandgauge_demo.deployment.faults import Fault, FaultBook, Route
from sandgauge_demo.deployment.journal import Journal
from sandgauge_demo.deployment.registry import SimulatedDeployment, UnknownSandboxError, WrongStateError
from sandgauge_demo.deployment.specs import SandboxChanges, SandboxSpec

PREFIX = "/_control"


def control_application(deployment: SimulatedDeployment, faults: FaultBook, journal: Journal) -> web.Application:
    """Return the application to mount below `PREFIX`."""
    routes = _ControlRoutes(deployment, faults, journal)
    application = web.Application(middlewares=[_explain])
    application.add_routes(
        [
            web.post("/sandboxes", routes.create),
            web.patch("/sandboxes/{sandbox_id}", routes.change),
            web.delete("/sandboxes/{sandbox_id}", routes.delete),
            web.post("/faults", routes.set_fault),
            web.delete("/faults", routes.clear_faults),
            web.get("/requests", routes.requests),
            web.get("/requests/count", routes.count),
        ]
    )
    return application


class _ControlRoutes:
    def __init__(self, deployment: SimulatedDeployment, faults: FaultBook, journal: Journal) -> None:
        self._deployment = deployment
        self._faults = faults
        self._journal = journal

    async def create(self, request: web.Request) -> web.Response:
        sandbox = self._deployment.create(SandboxSpec.model_validate_json(await request.read()))
        return web.json_response({"id": sandbox.id}, status=201)

    async def change(self, request: web.Request) -> web.Response:
        changes = SandboxChanges.model_validate_json(await request.read())
        self._deployment.change(request.match_info["sandbox_id"], changes)
        return web.Response(status=204)

    async def delete(self, request: web.Request) -> web.Response:
        self._deployment.delete(request.match_info["sandbox_id"])
        return web.Response(status=204)

    async def set_fault(self, request: web.Request) -> web.Response:
        self._faults.set(Fault.model_validate_json(await request.read()))
        return web.Response(status=204)

    async def clear_faults(self, request: web.Request) -> web.Response:
        self._faults.clear(*_selection(request))
        return web.Response(status=204)

    async def requests(self, request: web.Request) -> web.Response:
        return web.json_response([asdict(seen) for seen in self._journal.requests(*_selection(request))])

    async def count(self, request: web.Request) -> web.Response:
        route, sandbox_id = Route(request.query["route"]), request.query.get("sandbox_id")
        at_least, timeout_s = int(request.query.get("at_least", "0")), float(request.query.get("timeout_s", "0"))
        count = await self._journal.wait_for(at_least, route, sandbox_id, timeout_s=timeout_s)
        return web.json_response({"count": count, "most_in_flight": self._journal.most_in_flight[route]})


def _selection(request: web.Request) -> tuple[Route | None, str | None]:
    route = request.query.get("route")
    return (None if route is None else Route(route)), request.query.get("sandbox_id")


@web.middleware
async def _explain(request: web.Request, handler: Any) -> web.StreamResponse:
    """Answer a wrong order with what is wrong about it."""
    try:
        response: web.StreamResponse = await handler(request)
    except UnknownSandboxError as error:
        return web.json_response({"error": f"no sandbox {error}"}, status=404)
    except WrongStateError as error:
        return web.json_response({"error": str(error)}, status=409)
    except (ValidationError, ValueError, KeyError) as error:
        return web.json_response({"error": str(error)}, status=422)
    return response
