"""The JSON that the server answers with. Error bodies come in several shapes: callers must cope with each."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from sandgauge_demo.deployment.model import Runtime, SandboxState, SimulatedSandbox

Json = dict[str, Any]

_CODE_PREFIX = {Runtime.DOCKER: "DOCKER", Runtime.KUBERNETES: "KUBERNETES", Runtime.FAST_SANDBOX: "FSB"}
_REASONS = {
    Runtime.DOCKER: {
        SandboxState.RUNNING: "CONTAINER_RUNNING",
        SandboxState.PAUSED: "CONTAINER_PAUSED",
        SandboxState.PENDING: "CONTAINER_STARTING",
        SandboxState.TERMINATED: "CONTAINER_EXITED",
        SandboxState.FAILED: "CONTAINER_EXITED_ERROR",
    },
    Runtime.KUBERNETES: {
        SandboxState.RUNNING: "POD_READY_WITH_IP",
        SandboxState.ALLOCATED: "IP_ASSIGNED",
        SandboxState.PENDING: "BATCHSANDBOX_PENDING",
        SandboxState.STOPPING: "DELETING",
    },
}


def json_answer(content: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return JSON as the server writes it: without blanks, and without a charset in the content type."""
    body = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


def coded_error(status: int, code: str, message: str) -> web.Response:
    """Return the server's own error: a code and a message."""
    return json_answer({"code": code, "message": message}, status=status)


def not_found(runtime: Runtime, sandbox_id: str) -> web.Response:
    """Return the 404 of a sandbox that is not there."""
    return coded_error(404, f"{_CODE_PREFIX[runtime]}::SANDBOX_NOT_FOUND", f"no sandbox {sandbox_id}")


def wrong_state(runtime: Runtime, wanted: SandboxState) -> web.Response:
    """Return the 409 of a pause or resume in the wrong state."""
    code = f"DOCKER::SANDBOX_NOT_{wanted.upper()}" if runtime is Runtime.DOCKER else "KUBERNETES::INVALID_STATE"
    return coded_error(409, code, f"the sandbox is not {wanted.lower()}")


def no_address(runtime: Runtime) -> web.Response:
    """Return the error of a sandbox whose container has exited, or whose pod has no address."""
    if runtime is Runtime.DOCKER:
        return coded_error(500, "DOCKER::NETWORK_MODE_ENDPOINT_UNAVAILABLE", "the container has no address")
    return coded_error(404, f"{_CODE_PREFIX[runtime]}::POD_IP_NOT_AVAILABLE", "the pod has no address")


def invalid_port(runtime: Runtime) -> web.Response:
    """Return the 400 of a port that no address can have."""
    return coded_error(400, f"{_CODE_PREFIX[runtime]}::INVALID_PORT", "a port is 1 to 65535")


def invalid(details: Sequence[Json]) -> web.Response:
    """Return the 422 of a wrong request, in the shape of the validating framework."""
    return json_answer({"detail": list(details)}, status=422)


def detail(where: tuple[str, str], given: str, kind: str, message: str, bound: Json | None = None) -> Json:
    """Return what is wrong with one parameter; `where` is `query` or `path`, and its name."""
    entry: Json = {"type": kind, "loc": list(where), "msg": message, "input": given}
    return entry if bound is None else {**entry, "ctx": bound}


def sandbox_json(sandbox: SimulatedSandbox) -> Json:
    """Return a sandbox as the server shows it: no resources, no pod, no node. Without an expiry the key is absent."""
    return {
        "id": sandbox.id,
        "image": {"uri": sandbox.image},
        "status": _status(sandbox),
        "metadata": dict(sandbox.metadata),
        "entrypoint": list(sandbox.entrypoint),
        **({} if sandbox.expires_at is None else {"expiresAt": _time(sandbox.expires_at)}),
        "createdAt": _time(sandbox.created_at),
    }


def page_json(sandboxes: Sequence[SimulatedSandbox], *, page: int, page_size: int) -> Json:
    """Return one page of a listing; pages count from 1."""
    pages = math.ceil(len(sandboxes) / page_size)
    return {
        "items": [sandbox_json(sandbox) for sandbox in sandboxes[(page - 1) * page_size : page * page_size]],
        "pagination": {
            "page": page,
            "pageSize": page_size,
            "totalItems": len(sandboxes),
            "totalPages": pages,
            "hasNextPage": page < pages,
        },
    }


def endpoint_json(endpoint: str, headers: Mapping[str, str]) -> Json:
    """Return an endpoint; headers only where there are any."""
    return {"endpoint": endpoint, **({"headers": dict(headers)} if headers else {})}


def _status(sandbox: SimulatedSandbox) -> Json:
    reason = _REASONS.get(sandbox.runtime, {}).get(sandbox.state, sandbox.state.upper())
    return {
        "state": sandbox.state,
        "reason": reason,
        "message": f"simulated sandbox, {sandbox.state.lower()}",
        "lastTransitionAt": _time(sandbox.state_since),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
