"""Records to OTLP messages: deterministic bytes, so that whatever is sent again is the same.

A payload is a serialized `ScopeSpans` or `ScopeMetrics` that holds only its spans or metrics. Protobuf appends repeated
fields, so a request is the concatenation of payloads behind a resource and a scope, and no payload is decoded again.
Each point therefore stays in a Metric of its own instead of one for each name in the request: OTLP allows it, backends
tell series apart by their attributes, and grouping would cost the poller more than it saves the Collector.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    NumberDataPoint,
    ScopeMetrics,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, SpanFlags, Status

from sandgauge_schemas.attributes import Attributes, AttributeValue
from sandgauge_schemas.names import METRIC_UNITS, SANDGAUGE_POLLER_SERVICE_NAME, SERVICE_NAME, SERVICE_VERSION
from sandgauge_schemas.version import __version__

TELEMETRY_SCOPE = "sandgauge_poller"
"""Instrumentation scope of everything that the poller emits."""

_SPAN_ID_BYTES = 8
_REMOTE_PARENT = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
"""The parent, the start span, is another process's."""
_LENGTH_DELIMITED = 2
_VARINT_MORE = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """One point of a gauge or a sum; a value of None says 'no recorded value', which ends the series.

    `time_ns` is ns since the epoch; the unit is the registered one of `metric`. `start_ns`: of a monotonic cumulative
    sum, since when it accumulates; None for a gauge.
    """

    metric: str
    value: float | None
    time_ns: int
    attributes: Attributes
    start_ns: int | None = None


def span_id(  # noqa: PLR0913 - one keyword for each part of the identity
    *, trace_id: bytes, deployment: str, sandbox_id: str, span_name: str, source: str, start_ns: int
) -> bytes:
    """Return the 8 bytes that the same record always has; never all zero, which OTLP forbids.

    `start_ns` is the start of the reading on the poller's clock, for a summary the time of the end.
    """
    digest = hashlib.blake2b(digest_size=_SPAN_ID_BYTES)
    for part in (trace_id, deployment.encode(), sandbox_id.encode(), span_name.encode(), source.encode()):
        digest.update(len(part).to_bytes(4, "big") + part)
    digest.update(start_ns.to_bytes(8, "big"))
    found = digest.digest()
    return found if any(found) else b"\x01" * _SPAN_ID_BYTES


def encode_span(  # noqa: PLR0913 - one keyword for each field of the message
    *,
    name: str,
    trace_id: bytes,
    parent_span_id: bytes,
    span_id: bytes,
    start_ns: int,
    end_ns: int,
    attributes: Attributes,
    error: bool,
) -> bytes:
    """Return the payload of one span of kind INTERNAL.

    `error` sets the status ERROR, as the conventions want it beside `error.type`: a failed read is findable by its
    status. Else the status stays unset, since OK is for applications to say.
    """
    payload = ScopeSpans()
    span = payload.spans.add(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent_span_id,
        flags=_REMOTE_PARENT,
        name=name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=end_ns,
    )
    _add_attributes(span, attributes)
    if error:
        span.status.code = Status.STATUS_CODE_ERROR
    return payload.SerializeToString()


def encode_points(points: Sequence[MetricPoint]) -> bytes:
    """Return the payload of the points, in their order."""
    payload = ScopeMetrics()
    for point in points:
        metric = payload.metrics.add(name=point.metric, unit=METRIC_UNITS[point.metric])
        if point.start_ns is None:
            data_point = metric.gauge.data_points.add(time_unix_nano=point.time_ns)
        else:
            metric.sum.is_monotonic = True
            metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            data_point = metric.sum.data_points.add(start_time_unix_nano=point.start_ns, time_unix_nano=point.time_ns)
        if point.value is None:
            data_point.flags = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
        else:
            data_point.as_double = point.value
        _add_attributes(data_point, point.attributes)
    return payload.SerializeToString()


def export_request(payloads: Iterable[bytes]) -> bytes:
    """Return a serialized ExportTraceServiceRequest of span payloads, or ExportMetricsServiceRequest of point payloads.

    Resource, scope and payloads have the same field numbers in both.
    """
    resource, scope = _head()
    scope_message = scope + b"".join(payloads)
    return _field(1, resource + _field(2, scope_message))


@cache
def _head() -> tuple[bytes, bytes]:
    """Return a ResourceSpans that holds only its resource, and a ScopeSpans that holds only its scope."""
    resource = Resource()
    _add_attributes(resource, {SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME, SERVICE_VERSION: __version__})
    scope = InstrumentationScope(name=TELEMETRY_SCOPE, version=__version__)
    return ResourceSpans(resource=resource).SerializeToString(), ScopeSpans(scope=scope).SerializeToString()


def _add_attributes(message: Span | NumberDataPoint | Resource, attributes: Attributes) -> None:
    """Fill the messages in place: half the cost of building each and having it copied."""
    for key, value in attributes.items():
        _set(message.attributes.add(key=key).value, value)


def _set(target: AnyValue, value: AttributeValue) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    else:
        target.array_value.SetInParent()
        for element in value:
            target.array_value.values.add(string_value=element)


def _field(number: int, message: bytes) -> bytes:
    """Return a message as a field of another: key and length as varints, then its bytes."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(message)) + message


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value >= _VARINT_MORE:
        groups.append(value & (_VARINT_MORE - 1) | _VARINT_MORE)
        value >>= 7
    groups.append(value)
    return bytes(groups)
