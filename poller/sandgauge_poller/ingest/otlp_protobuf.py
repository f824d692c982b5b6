"""OTLP trace requests in protobuf: each lifecycle span is decoded by itself, any other is searched for a name."""

import re
from collections.abc import Callable, Iterable
from functools import cached_property

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status
from opentelemetry.sdk.resources import SERVICE_VERSION

from sandgauge_poller.ingest.spans import (
    KEPT_ATTRIBUTES,
    LIFECYCLE_SPANS,
    MAX_TEXT,
    AttributeCollector,
    Decoded,
    SpanData,
    UndecodableError,
    always,
    inherit,
    sender_of,
    usable_name,
)
from sandgauge_poller.ingest.wire import WireReader
from sandgauge_schemas import names
from sandgauge_schemas.attributes import AttributeValue
from sandgauge_schemas.names import SpanReason

MAX_MESSAGE = 256 * 1024
"""Largest lifecycle span or Resource that is decoded, in bytes: one takes up to forty times as much memory."""

_A_LIFECYCLE_NAME = re.compile(b"|".join(re.escape(name.encode()) for name in sorted(LIFECYCLE_SPANS)))
_LIFECYCLE_NAMES = frozenset(name.encode() for name in LIFECYCLE_SPANS)


def decode_protobuf(body: bytes, is_wanted: Callable[[], bool] = always) -> Decoded:
    """Decode a request as long as that is wanted; raises UndecodableError."""
    reader, decoded = WireReader(), Decoded(is_wanted)
    try:
        for resource_spans in reader.contents(memoryview(body), ExportTraceServiceRequest.RESOURCE_SPANS_FIELD_NUMBER):
            _decode_resource_spans(reader, resource_spans, decoded)
    except DecodeError as error:
        raise UndecodableError("the body is not an OTLP trace request in protobuf") from error
    return decoded


def _decode_resource_spans(reader: WireReader, resource_spans: memoryview, decoded: Decoded) -> None:
    resource = _Resource(reader, resource_spans)
    for scope_spans in reader.contents(resource_spans, ResourceSpans.SCOPE_SPANS_FIELD_NUMBER):
        instrumentation = _Instrumentation(reader, scope_spans)
        for message in reader.contents(scope_spans, ScopeSpans.SPANS_FIELD_NUMBER):
            if not _may_be_of_a_lifecycle(reader, message):
                decoded.pass_over(SpanReason.OTHER_SPAN)
            elif len(message) > MAX_MESSAGE or resource.is_too_large:
                decoded.pass_over(SpanReason.TOO_LARGE)
            elif resource.is_own:
                decoded.pass_over(SpanReason.OWN_SPAN)
            else:
                _decode_span(reader, message, resource, instrumentation, decoded)


def _may_be_of_a_lifecycle(reader: WireReader, message: memoryview) -> bool:
    """Look for a name, fast; what is too large to be decoded is looked at exactly."""
    if _A_LIFECYCLE_NAME.search(message) is None:
        return False
    return (
        len(message) <= MAX_MESSAGE or next(reader.contents(message, Span.NAME_FIELD_NUMBER), b"") in _LIFECYCLE_NAMES
    )


class _Instrumentation:
    """Name of the instrumentation scope of some spans, looked for when the first of them asks."""

    def __init__(self, reader: WireReader, scope_spans: memoryview) -> None:
        self._reader = reader
        self._scope_spans = scope_spans

    @cached_property
    def name(self) -> str | None:
        scope = next(self._reader.contents(self._scope_spans, ScopeSpans.SCOPE_FIELD_NUMBER), memoryview(b""))
        name = next(self._reader.contents(scope, InstrumentationScope.NAME_FIELD_NUMBER), memoryview(b""))
        return usable_name(bytes(name[: MAX_TEXT + 1]).decode("utf-8", "replace"))


class _Resource:
    """Attributes of a Resource, decoded only when a lifecycle span asks."""

    def __init__(self, reader: WireReader, resource_spans: memoryview) -> None:
        self._reader = reader
        self._resource_spans = resource_spans
        self._message: bytes | None = None
        self._decoded: tuple[bool, str | None, AttributeCollector] | None = None

    @property
    def is_too_large(self) -> bool:
        return len(self._bytes()) > MAX_MESSAGE

    @property
    def is_own(self) -> bool:
        return self._decode()[0]

    @property
    def sender(self) -> str | None:
        return self._decode()[1]

    @property
    def attributes(self) -> AttributeCollector:
        return self._decode()[2]

    def _bytes(self) -> bytes:
        if self._message is None:
            # Several of them are one in parts, which protobuf merges by putting one behind the other.
            parts = self._reader.contents(self._resource_spans, ResourceSpans.RESOURCE_FIELD_NUMBER)
            self._message = b"".join(parts)
        return self._message

    def _decode(self) -> tuple[bool, str | None, AttributeCollector]:
        if self._decoded is None:
            attributes = Resource.FromString(self._bytes()).attributes
            self._reader.spend(len(attributes))
            service = {
                attribute.key: attribute.value.string_value
                for attribute in attributes
                if attribute.key in (names.SERVICE_NAME, SERVICE_VERSION)
            }
            own = service.get(names.SERVICE_NAME) == names.SANDGAUGE_POLLER_SERVICE_NAME
            sender = sender_of(service.get(names.SERVICE_NAME), service.get(SERVICE_VERSION))
            self._decoded = (own, sender, _collect(attributes))
        return self._decoded


def _decode_span(
    reader: WireReader, message: memoryview, resource: _Resource, instrumentation: _Instrumentation, decoded: Decoded
) -> None:
    span = Span.FromString(bytes(message))
    reader.spend(len(span.attributes))
    if span.name not in LIFECYCLE_SPANS:  # the name stood elsewhere in it, or it has several, of which the last counts
        decoded.pass_over(SpanReason.OTHER_SPAN)
        return
    collector = _collect(span.attributes)
    decoded.add(
        SpanData(
            name=span.name,
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_span_id=span.parent_span_id,
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            failed=span.status.code == Status.STATUS_CODE_ERROR,
            instrumentation=instrumentation.name,
            attributes=inherit(collector.values, resource.attributes.values),
            sender=resource.sender,
            contradictory=collector.contradictory or resource.attributes.contradictory,
        )
    )


def _collect(attributes: Iterable[KeyValue]) -> AttributeCollector:
    collector = AttributeCollector()
    for attribute in attributes:
        key = attribute.key
        if key in KEPT_ATTRIBUTES:
            collector.add(key, _value(attribute.value))
    return collector


def _value(value: AnyValue) -> AttributeValue | None:
    found = value.string_value
    if found:
        return found
    match value.WhichOneof("value"):
        case "string_value":
            return ""
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case _:
            return None
