"""OTLP/JSON requests, written short: what Gym, the poller or anyone else sends."""

import json
import secrets
from pathlib import Path
from typing import Any

from sandgauge_schemas import names

GYM_SPANS = Path(__file__).parents[1] / "fixtures" / "gym-spans"
GYM_CASES = sorted(path.stem for path in GYM_SPANS.glob("*.json") if "." not in path.stem)
"""The captured runs of stock Gym, by name."""

START_NS = 1_795_962_400_000_000_000


def captured(case: str) -> dict[str, Any]:
    """Return one captured request of stock Gym: spans, or metrics for a name that ends in `.metrics`."""
    request: dict[str, Any] = json.loads((GYM_SPANS / f"{case}.json").read_text())
    return request


def traces(*resources: dict[str, Any]) -> dict[str, Any]:
    """Return an ExportTraceServiceRequest."""
    return {"resourceSpans": list(resources)}


def from_resource(
    attributes: dict[str, Any], *spans: dict[str, Any], scope: str = "tests", version: str = "1"
) -> dict[str, Any]:
    """Return spans of one resource and one instrumentation scope."""
    return {
        "resource": {"attributes": key_values(attributes)},
        "scopeSpans": [{"scope": {"name": scope, "version": version}, "spans": list(spans)}],
    }


def span(name: str, attributes: dict[str, Any] | None = None, *, trace_id: str | None = None) -> dict[str, Any]:
    """Return a span of one second with ids of its own; `trace_id` puts it into a given trace."""
    return {
        "traceId": trace_id or new_trace_id(),
        "spanId": secrets.token_hex(8),
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(START_NS),
        "endTimeUnixNano": str(START_NS + 10**9),
        "attributes": key_values(attributes or {}),
        "status": {},
    }


def start(**fields: Any) -> dict[str, Any]:
    """Return the start span of sandbox `s-1`, with the given fields of OTLP in place of its own."""
    attributes = {names.NEMO_GYM_SANDBOX_ID: "s-1", names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox"}
    return {**span(names.SPAN_GYM_SANDBOX_START, attributes), **fields}


def new_trace_id() -> str:
    """Return 32 hexadecimal digits that no other trace has."""
    return secrets.token_hex(16)


def metrics(resource: dict[str, Any], *items: dict[str, Any]) -> dict[str, Any]:
    """Return an ExportMetricsServiceRequest of one resource."""
    one = {"resource": {"attributes": key_values(resource)}, "scopeMetrics": [{"metrics": list(items)}]}
    return {"resourceMetrics": [one]}


def gauge(name: str, *points: dict[str, Any], unit: str = "") -> dict[str, Any]:
    """Return a gauge of the given data points."""
    return {"name": name, "unit": unit, "gauge": {"dataPoints": list(points)}}


def point(value: float | None, attributes: dict[str, Any], *, time_ns: int = START_NS) -> dict[str, Any]:
    """Return a data point; None makes it one without a value that is flagged so."""
    content: dict[str, Any] = {"flags": 1} if value is None else {"asDouble": value}
    return {"timeUnixNano": str(time_ns), "attributes": key_values(attributes), **content}


def key_values(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP/JSON has them: strings, bools, whole numbers (as text), doubles, lists of these."""
    return [{"key": key, "value": _any_value(value)} for key, value in attributes.items()]


def _any_value(value: Any) -> dict[str, Any]:
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case list() | tuple():
            return {"arrayValue": {"values": [_any_value(one) for one in value]}}
        case int():
            return {"intValue": str(value)}
        case _:
            return {"doubleValue": value}


def plain(key_values: list[dict[str, Any]]) -> dict[str, Any]:
    """Return OTLP/JSON attributes as a dictionary, values as they are written there."""
    return {item["key"]: next(iter(item["value"].values())) for item in key_values}
