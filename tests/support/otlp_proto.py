"""Easy views of OTLP protobuf messages: attributes and values as Python has them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import DataPointFlags
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from sandgauge_poller.export.messages import encode_span, export_request, span_ids, span_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSpan:
    """A span as a test looks at it: ids in hexadecimal, an absent parent as an empty text."""

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    start_ns: int
    end_ns: int
    is_error: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPoint:
    """A data point of a gauge or a sum. `value` is None where the point is flagged 'no recorded value'."""

    name: str
    unit: str
    time_ns: int
    value: float | None
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: str


def spans_of(request: ExportTraceServiceRequest) -> Iterator[SeenSpan]:
    """Yield the spans of a request in its order."""
    for resource_spans in request.resource_spans:
        resource = plain_attributes(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield SeenSpan(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_span_id=span.parent_span_id.hex(),
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    is_error=span.status.code == Status.StatusCode.STATUS_CODE_ERROR,
                    attributes=plain_attributes(span.attributes),
                    resource=resource,
                    scope=scope_spans.scope.name,
                )


def spans_of_payloads(payloads: Iterable[bytes]) -> list[SeenSpan]:
    """Return the spans of outbox rows."""
    return list(spans_of(ExportTraceServiceRequest.FromString(export_request(payloads))))


def points_of(request: ExportMetricsServiceRequest) -> Iterator[SeenPoint]:
    """Yield the data points of the gauges and sums of a request in its order; histograms have no one value."""
    for resource_metrics in request.resource_metrics:
        resource = plain_attributes(resource_metrics.resource.attributes)
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                for point in (*metric.gauge.data_points, *metric.sum.data_points):
                    kind = point.WhichOneof("value")
                    is_closing = bool(point.flags & DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
                    yield SeenPoint(
                        name=metric.name,
                        unit=metric.unit,
                        time_ns=point.time_unix_nano,
                        value=None if is_closing or kind is None else getattr(point, kind),
                        attributes=plain_attributes(point.attributes),
                        resource=resource,
                        scope=scope_metrics.scope.name,
                    )


def plain_attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Return attributes as a dictionary; of a repeated key the last."""
    return {item.key: plain_value(item.value) for item in attributes}


def plain_value(value: AnyValue) -> Any:
    """Return a value as Python has it: list for an array, dict for a map, None for an empty one."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain_value(element) for element in value.array_value.values]
    if kind == "kvlist_value":
        return plain_attributes(value.kvlist_value.values)
    return getattr(value, kind) if kind else None


def encoded_span(*, name: str, trace_id: bytes, parent_span_id: bytes, **fields: Any) -> bytes:
    """Return the payload of a span that has nothing in common with others."""
    return encode_span((span_ids(trace_id, parent_span_id), span_kind(name)), **fields)
