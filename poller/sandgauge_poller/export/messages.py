"""Records to OTLP messages: deterministic bytes, so that whatever is sent again is the same.

A payload is a serialized `ScopeSpans` or `ScopeMetrics` that holds only its spans or metrics. Protobuf appends repeated
fields, so payloads are joined by concatenation, a request is that behind a resource and a scope, and no payload is
decoded again. Each point therefore stays in a Metric of its own instead of one for each name in the request: OTLP
allows it, backends tell series apart by their attributes, and grouping would cost the poller more than it saves the
Collector.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import DataPointFlags, NumberDataPoint
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, SpanFlags, Status

from sandgauge_poller.export import wire
from sandgauge_schemas.attributes import Attributes
from sandgauge_schemas.names import SANDGAUGE_POLLER_SERVICE_NAME, SERVICE_NAME, SERVICE_VERSION
from sandgauge_schemas.version import __version__

TELEMETRY_SCOPE = "sandgauge_poller"
"""Instrumentation scope of everything that the poller emits."""

_SPAN_ID_BYTES = 8
_REMOTE_PARENT = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
"""The parent, the start span, is another process's."""

_SPAN_ID = wire.before_fixed(Span(span_id=bytes(_SPAN_ID_BYTES)))
_SPAN_START = wire.before_fixed(Span(start_time_unix_nano=1))
_SPAN_END = wire.before_fixed(Span(end_time_unix_nano=1))
_SPAN_ERROR = Span(status=Status(code=Status.STATUS_CODE_ERROR)).SerializeToString()
_POINT_START = wire.before_fixed(NumberDataPoint(start_time_unix_nano=1))
_POINT_TIME = wire.before_fixed(NumberDataPoint(time_unix_nano=1))
_POINT_VALUE = wire.before_fixed(NumberDataPoint(as_double=1.0))
_POINT_IS_LAST = NumberDataPoint(flags=DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK).SerializeToString()


class SeriesAttributes(dict[str, str]):
    """Attributes of a series; they do not change, and are encoded once for all its points."""

    __slots__ = ("encoded",)

    def __init__(self, attributes: Mapping[str, str]) -> None:
        super().__init__(attributes)
        self.encoded = wire.encode_attributes(NumberDataPoint, attributes)


class MetricPoint(NamedTuple):
    """One point of a gauge or a sum; a value of None says 'no recorded value', which ends the series.

    `time_ns` is ns since the epoch; the unit is the registered one of `metric`. `start_ns`: of a monotonic cumulative
    sum, since when it accumulates; None for a gauge.
    """

    metric: str
    value: float | None
    time_ns: int
    attributes: Mapping[str, str]
    start_ns: int | None = None


def identity(*parts: bytes) -> bytes:
    """Return parts of what tells a sandbox's spans apart, so that no two lists of them look alike."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(4, "big"), part)])


def span_id(identity: bytes, start_ns: int) -> bytes:
    """Return the 8 bytes that the same record always has; never all zero, which OTLP forbids.

    `identity` is that of the trace id, the deployment, the sandbox, the span's name and its source; `start_ns` the
    start of the reading on the poller's clock, for a summary the time of the end.
    """
    content = identity + start_ns.to_bytes(8, "big")
    found = hashlib.blake2b(content, digest_size=_SPAN_ID_BYTES).digest()
    return found if any(found) else b"\x01" * _SPAN_ID_BYTES


def span_ids(trace_id: bytes, parent_span_id: bytes) -> bytes:
    """Return where a span belongs, to begin it with."""
    return Span(trace_id=trace_id, parent_span_id=parent_span_id, flags=_REMOTE_PARENT).SerializeToString()


@cache
def span_kind(name: str) -> bytes:
    """Return the name of a span of kind INTERNAL, to go on with."""
    return Span(name=name, kind=Span.SPAN_KIND_INTERNAL).SerializeToString()


def encode_span(  # noqa: PLR0913 - one keyword for each field of the message
    head: Sequence[bytes], *, span_id: bytes, start_ns: int, end_ns: int, attributes: Attributes, error: bool
) -> bytes:
    """Return the payload of one span: the parts of its head, and these attributes behind those of the head.

    `error` sets the status ERROR, as the conventions want it beside `error.type`: a failed read is findable by its
    status. Else the status stays unset, since OK is for applications to say.
    """
    parts = [
        *head,
        _SPAN_ID,
        span_id,
        _SPAN_START,
        wire.pack_time(start_ns),
        _SPAN_END,
        wire.pack_time(end_ns),
        wire.encode_attributes(Span, attributes),
    ]
    if error:
        parts.append(_SPAN_ERROR)
    span = b"".join(parts)
    return wire.before_span(len(span)) + span


def encode_points(points: Sequence[MetricPoint]) -> bytes:
    """Return the payload of the points, in their order."""
    return b"".join([_encode_point(point) for point in points])


def _encode_point(point: MetricPoint) -> bytes:
    attributes = point.attributes
    if not isinstance(attributes, SeriesAttributes):
        attributes = SeriesAttributes(attributes)
    parts = [attributes.encoded, _POINT_TIME, wire.pack_time(point.time_ns)]
    if point.start_ns is not None:
        parts += (_POINT_START, wire.pack_time(point.start_ns))
    parts += (_POINT_IS_LAST,) if point.value is None else (_POINT_VALUE, wire.pack_double(point.value))
    encoded = b"".join(parts)
    return wire.before_point(point.metric, is_sum=point.start_ns is not None, length=len(encoded)) + encoded


def export_request(payloads: Iterable[bytes]) -> bytes:
    """Return a serialized ExportTraceServiceRequest of span payloads, or ExportMetricsServiceRequest of point payloads.

    Resource, scope and payloads have the same field numbers in both.
    """
    resource, scope = _head()
    scope_message = scope + b"".join(payloads)
    return wire.field(1, resource + wire.field(2, scope_message))


@cache
def _head() -> tuple[bytes, bytes]:
    """Return a ResourceSpans that holds only its resource, and a ScopeSpans that holds only its scope."""
    attributes = {SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME, SERVICE_VERSION: __version__}
    resource = Resource.FromString(wire.encode_attributes(Resource, attributes))
    scope = InstrumentationScope(name=TELEMETRY_SCOPE, version=__version__)
    return ResourceSpans(resource=resource).SerializeToString(), ScopeSpans(scope=scope).SerializeToString()
