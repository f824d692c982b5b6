"""Everything a control plane can answer wrongly, and one deployment for each such answer, so that they run at once."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from sandgauge_demo.deployment import DeploymentSettings, Route
from support.simulated_osb import SimulatedOsb, osb_in_thread

ROUTES = (Route.GET, Route.INSPECT, Route.ENDPOINT)
HTML = "<!DOCTYPE html><html><body>Please log in</body></html>"
_JSON = "application/json"

CONTROL_PLANE_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "unauthorized": (
        {"status": 401, "body": '{"code":"INVALID_API_KEY","message":"wrong"}', "content_type": _JSON},
        "unauthorized",
    ),
    "route-missing": ({"status": 404, "body": '{"detail":"Not Found"}', "content_type": _JSON}, "http_error"),
    "too-many": ({"status": 429, "body": "slow down", "headers": {"Retry-After": "1"}}, "http_error"),
    "broken": ({"status": 500, "body": "Internal Server Error"}, "http_error"),
    "overloaded": ({"status": 503, "body": "Service Unavailable"}, "http_error"),
    "hang": ({"hang": True}, "timeout"),
    "reset": ({"drop": True}, "connection"),
    "truncated": (
        {"status": 200, "body": '{"id":"x","status":{"state":"Run', "content_type": _JSON},
        "unrecognized_format",
    ),
    "wrong-types": (
        {"status": 200, "body": '{"id":1,"status":[true],"endpoint":5,"expiresAt":[]}', "content_type": _JSON},
        "unrecognized_format",
    ),
    "html": ({"status": 200, "body": HTML, "content_type": "text/html"}, "unrecognized_format"),
}
"""By name: the fields of the simulated deployment's Fault, and the error type of every question that meets it."""


@contextmanager
def deployments(names: Mapping[str, Any], *, api_key: str | None = None) -> Iterator[dict[str, SimulatedOsb]]:
    """Run one deployment, in health, for each name."""
    settings = DeploymentSettings(api_key=api_key, metrics_delay_s=0.05)
    with ExitStack() as stack:
        yield {name: stack.enter_context(osb_in_thread(settings)) for name in names}


def break_control_plane(osb: SimulatedOsb, name: str) -> None:
    """Put the fault of that name on every route that the poller asks."""
    for route in ROUTES:
        osb.fault(route, **CONTROL_PLANE_FAULTS[name][0])
