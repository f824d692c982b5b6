"""The feed that a Collector sends to the poller, written by hand: lifecycle spans by OTLP/JSON."""

import secrets
import time
from collections.abc import Mapping
from typing import Any

from sandgauge_schemas import names
from support.direct_session import direct_session
from support.otlp_json import from_resource, key_values, traces

OPENSANDBOX = "opensandbox"
GYM = {names.SERVICE_NAME: "nemo-gym/tests"}


def start_span(
    sandbox_id: str,
    *,
    trace_id: str | None = None,
    parent: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    provider: str = OPENSANDBOX,
) -> dict[str, Any]:
    """Return a start span that ends now; `attributes` come after its own."""
    span = _span(names.SPAN_GYM_SANDBOX_START, sandbox_id, trace_id, parent, provider)
    return {**span, "attributes": span["attributes"] + key_values(dict(attributes or {}))}


def stop_span(
    sandbox_id: str, *, trace_id: str | None = None, failed: bool = False, provider: str = OPENSANDBOX
) -> dict[str, Any]:
    """Return a stop span that ends now."""
    span = _span(names.SPAN_GYM_SANDBOX_STOP, sandbox_id, trace_id, None, provider)
    return {**span, "status": {"code": 2}} if failed else span


def rollout_span(trace_id: str, rollout_id: str, *, span_id: str | None = None) -> dict[str, Any]:
    """Return a rollout span that ends now."""
    span = _span(names.SPAN_GYM_ROLLOUT, None, trace_id, None)
    attributes = key_values({names.NEMO_GYM_ROLLOUT_ID: rollout_id})
    return {**span, "attributes": attributes, **({"spanId": span_id} if span_id else {})}


def feed(
    endpoint: str, *spans: dict[str, Any], resource: dict[str, Any] | None = None, token: str | None = None
) -> None:
    """Send spans to an ingest port and insist on 200."""
    request = traces(from_resource({**GYM, **(resource or {})}, *spans))
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with direct_session() as session:
        answer = session.post(f"{endpoint}/v1/traces", json=request, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text


def _span(
    name: str, sandbox_id: str | None, trace_id: str | None, parent: str | None, provider: str = OPENSANDBOX
) -> dict[str, Any]:
    now = time.time_ns()
    own = {names.NEMO_GYM_SANDBOX_PROVIDER: provider}
    if sandbox_id is not None:
        own[names.NEMO_GYM_SANDBOX_ID] = sandbox_id
    return {
        "traceId": trace_id or secrets.token_hex(16),
        "spanId": secrets.token_hex(8),
        **({"parentSpanId": parent} if parent else {}),
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(now - 10**9),
        "endTimeUnixNano": str(now),
        "attributes": key_values(own),
        "status": {},
    }
