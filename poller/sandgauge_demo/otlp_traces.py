"""Trace requests in the form of OTLP/JSON, and what the shipped Collector configuration makes of them."""

import json
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_schemas import names

JSON, PROTOBUF = "application/json", "application/x-protobuf"

Json = dict[str, Any]
Attributes = dict[str, Json]
"""Attribute key to value, each value as OTLP/JSON writes it: `{"stringValue": "x"}`."""

_LIFECYCLE = {
    names.SPAN_GYM_SANDBOX_REQUEST,
    names.SPAN_GYM_SANDBOX_START,
    names.SPAN_GYM_SANDBOX_STOP,
    names.SPAN_GYM_ROLLOUT,
}
_SANDBOX_PREFIX = names.SPAN_GYM_SANDBOX_START.removesuffix("start")
_ROLLOUT_KEYS = (names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID)
_GROUP_KEYS = (*_ROLLOUT_KEYS, names.SANDGAUGE_TRACE_GROUP)
_POLLER = {"stringValue": names.SANDGAUGE_POLLER_SERVICE_NAME}
_JOINED_SCOPE = {"name": "sandgauge.joined"}


@dataclass(frozen=True, slots=True)
class TracedSpan:
    """One span and what it came under. `attributes` are its own and the rollout's keys of its Resource."""

    resource: Attributes
    span: Json
    attributes: Attributes

    @property
    def name(self) -> str:
        """The span's name."""
        return str(self.span.get("name", ""))


def decode_traces(content_type: str, body: bytes) -> list[TracedSpan]:
    """Return the spans of a request of one of OTLP's two content types. Raise ValueError or DecodeError."""
    if content_type == PROTOBUF:
        message = MessageToDict(ExportTraceServiceRequest.FromString(body), use_integers_for_enums=True)
        identity = _hexadecimal_ids
    else:
        message, identity = json.loads(body), _as_it_is
    try:
        return [
            _traced(resource_spans.get("resource", {}), identity(span))
            for resource_spans in message.get("resourceSpans", ())
            for scope_spans in resource_spans.get("scopeSpans", ())
            for span in scope_spans.get("spans", ())
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("not an OTLP trace request") from error


def lifecycle_feed(spans: Iterable[TracedSpan]) -> list[Json]:
    """Return the resourceSpans of the lifecycle spans; the poller's own never go back to it."""
    return [
        {
            "resource": {"attributes": _listed(traced.resource)},
            "scopeSpans": [{"spans": [_with(traced.span, traced.attributes)]}],
        }
        for traced in spans
        if traced.name in _LIFECYCLE and traced.resource.get(names.SERVICE_NAME) != _POLLER
    ]


class JoinedGroups:
    """Sandbox and rollout spans by rollout, or by trace where a record does not know its rollout."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[Attributes, list[Json]]] = {}

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, traced: TracedSpan) -> None:
        """Add a span to its group; any other span than a sandbox's or a rollout's is left out."""
        if not traced.name.startswith(_SANDBOX_PREFIX) and traced.name != names.SPAN_GYM_ROLLOUT:
            return
        trace_id = {"stringValue": traced.span.get("traceId", "")}
        attributes = {**_chosen(traced.resource, (names.NEMO_GYM_SERVER_NAME,)), **traced.attributes}
        attributes |= _chosen(traced.resource, (names.SERVICE_NAME,))
        attributes[names.OTEL_TRACE_ID] = trace_id
        if not attributes.keys() >= set(_ROLLOUT_KEYS):
            attributes[names.SANDGAUGE_TRACE_GROUP] = trace_id
        group = {key: attributes.pop(key) for key in _GROUP_KEYS if key in attributes}
        _, spans = self._groups.setdefault(json.dumps(group), (group, []))
        spans.append(_with(traced.span, attributes))

    def take(self) -> Json:
        """Return what was gathered as one request with one Resource for each group, and begin anew."""
        groups, self._groups = self._groups, {}
        return {
            "resourceSpans": [
                {"resource": {"attributes": _listed(group)}, "scopeSpans": [{"scope": _JOINED_SCOPE, "spans": spans}]}
                for group, spans in groups.values()
            ]
        }


def _traced(resource: Json, span: Json) -> TracedSpan:
    under, own = _keyed(resource), _keyed(span)
    return TracedSpan(under, span, {**_chosen(under, _ROLLOUT_KEYS), **own})


def _hexadecimal_ids(span: Json) -> Json:
    """Write ids as OTLP does; the JSON of protobuf has them in base64."""
    ids: Json = {key: b64decode(span[key]).hex() for key in ("traceId", "spanId", "parentSpanId") if key in span}
    links = {"links": [_hexadecimal_ids(link) for link in span["links"]]} if "links" in span else {}
    return {**span, **ids, **links}


def _as_it_is(span: Json) -> Json:
    return span


def _keyed(holder: Json) -> Attributes:
    return {attribute["key"]: attribute["value"] for attribute in holder.get("attributes", ())}


def _listed(attributes: Attributes) -> list[Json]:
    return [{"key": key, "value": value} for key, value in attributes.items()]


def _chosen(attributes: Attributes, keys: Iterable[str]) -> Attributes:
    return {key: attributes[key] for key in keys if key in attributes}


def _with(span: Json, attributes: Attributes) -> Json:
    return {**span, "attributes": _listed(attributes)}
