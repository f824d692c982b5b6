"""OTLP trace requests in protobuf."""

from collections.abc import Iterable

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from sandgauge_poller.ingest.lifecycle import SpanReason
from sandgauge_poller.ingest.spans import (
    LIFECYCLE_SPANS,
    AttributeCollector,
    Decoded,
    SpanData,
    UndecodableError,
    inherit,
)
from sandgauge_schemas import names
from sandgauge_schemas.attributes import AttributeValue


def decode_protobuf(body: bytes) -> Decoded:
    """Decode a request; raises UndecodableError."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise UndecodableError("the body is not an OTLP trace request in protobuf") from error
    decoded = Decoded()
    for resource_spans in request.resource_spans:
        resource = _Resource(resource_spans.resource.attributes)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                if span.name not in LIFECYCLE_SPANS:
                    decoded.passed_over[SpanReason.OTHER_SPAN] += 1
                elif resource.is_own:
                    decoded.passed_over[SpanReason.OWN_SPAN] += 1
                else:
                    decoded.spans.append(_span(span, resource.values))
    return decoded


class _Resource:
    """Attributes of a Resource, decoded only when a lifecycle span asks."""

    def __init__(self, attributes: Iterable[KeyValue]) -> None:
        self._attributes = attributes
        self._decoded: tuple[bool, dict[str, AttributeValue]] | None = None

    @property
    def is_own(self) -> bool:
        return self._decode()[0]

    @property
    def values(self) -> dict[str, AttributeValue]:
        return self._decode()[1]

    def _decode(self) -> tuple[bool, dict[str, AttributeValue]]:
        if self._decoded is None:
            own = False
            for attribute in self._attributes:
                if attribute.key == names.SERVICE_NAME:
                    own = attribute.value.string_value == names.SANDGAUGE_POLLER_SERVICE_NAME
            self._decoded = (own, _collect(self._attributes).values)
        return self._decoded


def _span(span: Span, resource: dict[str, AttributeValue]) -> SpanData:
    collector = _collect(span.attributes)
    return SpanData(
        name=span.name,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        attributes=inherit(collector.values, resource),
        contradictory=collector.contradictory,
    )


def _collect(attributes: Iterable[KeyValue]) -> AttributeCollector:
    collector = AttributeCollector()
    for attribute in attributes:
        if collector.wants(attribute.key):
            collector.add(attribute.key, _value(attribute.value))
    return collector


def _value(value: AnyValue) -> AttributeValue | None:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case _:
            return None
