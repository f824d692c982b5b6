"""OTLP trace requests in JSON.

Read by hand, since the protobuf library's JSON reader takes ids for base64 and rounds large numbers; every form
that senders use is taken exactly, anything else is refused.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from opentelemetry.sdk.resources import SERVICE_VERSION

from sandgauge_poller.ingest.spans import (
    KEPT_ATTRIBUTES,
    LIFECYCLE_SPANS,
    MOST_ITEMS,
    AttributeCollector,
    Decoded,
    SpanData,
    TooManyItemsError,
    UndecodableError,
    always,
    inherit,
    is_unicode,
    sender_of,
    usable_name,
)
from sandgauge_schemas import names
from sandgauge_schemas.attributes import AttributeValue
from sandgauge_schemas.names import SpanReason

_STRUCTURE = (b"{", b"[", b",")
"""No more values can be there than these; that some stand inside strings costs nothing but room to spare."""

_WHOLE = re.compile(r"-?[0-9]{1,20}")
_DOUBLE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|NaN|-?Infinity")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_BESIDE_SCOPE_SPANS = frozenset({"resource", "schemaUrl"})
_BESIDE_SPANS = frozenset({"scope", "schemaUrl"})
_ERROR_CODES = (2, "2", "STATUS_CODE_ERROR")
_ONLY_OBJECTS = {dict}
_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)


def decode_json(body: bytes, is_wanted: Callable[[], bool] = always) -> Decoded:
    """Decode a request as long as that is wanted; raises UndecodableError naming the field that is wrong."""
    if sum(map(body.count, _STRUCTURE)) > MOST_ITEMS:
        raise TooManyItemsError
    try:
        request = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UndecodableError("the body is not JSON") from error
    if not isinstance(request, dict):
        raise UndecodableError("the body is not an OTLP trace request: its top is not an object")
    decoded = Decoded(is_wanted)
    for resource_spans in _contents(request, "resourceSpans", beside=frozenset()):
        _decode_resource_spans(resource_spans, decoded)
    return decoded


def _decode_resource_spans(resource_spans: dict[str, Any], decoded: Decoded) -> None:
    if "instrumentationLibrarySpans" in resource_spans:
        raise UndecodableError("instrumentationLibrarySpans: a form of OTLP before 1.0; the sender must be updated")
    attributes = _objects(_object(resource_spans, "resource"), "attributes")
    collector = _collect(attributes)
    service: dict[object, object] = {}
    for attribute in attributes:
        key = attribute.get("key")
        if key in (names.SERVICE_NAME, SERVICE_VERSION):
            service[key] = _value(attribute)
    own = service.get(names.SERVICE_NAME) == names.SANDGAUGE_POLLER_SERVICE_NAME
    sender = sender_of(service.get(names.SERVICE_NAME), service.get(SERVICE_VERSION))
    for scope_spans in _contents(resource_spans, "scopeSpans", beside=_BESIDE_SCOPE_SPANS):
        instrumentation = _instrumentation(scope_spans)
        for span in _contents(scope_spans, "spans", beside=_BESIDE_SPANS):
            if _text(span, "name") not in LIFECYCLE_SPANS:
                decoded.pass_over(SpanReason.OTHER_SPAN)
            elif own:
                decoded.pass_over(SpanReason.OWN_SPAN)
            else:
                decoded.add(_span(span, collector, instrumentation, sender))


def _instrumentation(scope_spans: dict[str, Any]) -> str | None:
    """Return the name of the instrumentation scope; one that cannot be read is no reason to refuse spans."""
    scope = scope_spans.get("scope")
    name = scope.get("name") if isinstance(scope, dict) else None
    return usable_name(name) if isinstance(name, str) else None


def _span(
    span: dict[str, Any], resource: AttributeCollector, instrumentation: str | None, sender: str | None
) -> SpanData:
    collector = _collect(_objects(span, "attributes"))
    return SpanData(
        name=_text(span, "name"),
        trace_id=_id(span, "traceId"),
        span_id=_id(span, "spanId"),
        parent_span_id=_id(span, "parentSpanId"),
        start_ns=_whole(span, "startTimeUnixNano", _UINT64),
        end_ns=_whole(span, "endTimeUnixNano", _UINT64),
        failed=_object(span, "status").get("code") in _ERROR_CODES,
        instrumentation=instrumentation,
        attributes=inherit(collector.values, resource.values),
        sender=sender,
        contradictory=collector.contradictory or resource.contradictory,
    )


def _collect(attributes: list[dict[str, Any]]) -> AttributeCollector:
    collector = AttributeCollector()
    for attribute in attributes:
        key = _text(attribute, "key")
        if key in KEPT_ATTRIBUTES:
            collector.add(key, _value(attribute))
    return collector


def _value(attribute: dict[str, Any]) -> AttributeValue | None:
    value = _object(attribute, "value")
    match value:
        case {"stringValue": str(found)}:
            return found if is_unicode(found) else None
        case {"boolValue": bool(flag)}:
            return flag
        case {"intValue": number} if number is not None:
            return _whole(value, "intValue")
        case {"doubleValue": number} if number is not None:
            return _double(number)
        case _:
            return None


def _double(number: object) -> float:
    """Return a double, written as a number or as text."""
    if (isinstance(number, int | float) and not isinstance(number, bool)) or (
        isinstance(number, str) and _DOUBLE.fullmatch(number)
    ):
        with suppress(OverflowError):
            return float(number)
    raise UndecodableError("doubleValue: not a number")


def _whole(fields: dict[str, Any], key: str, allowed: range = _INT64) -> int:
    """Return a 64-bit number, written as a number or as text; an exponent or a fraction cannot be exact."""
    value = fields.get(key)
    if value is None:
        return 0
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value in allowed:
        return value
    raise UndecodableError(f"{key}: not a whole number of 64 bits, written in digits")


def _id(fields: dict[str, Any], key: str) -> bytes:
    value = _text(fields, key)
    if not _HEX.fullmatch(value):
        raise UndecodableError(f"{key}: not hexadecimal; OTLP's JSON writes ids in hex, not in base64")
    return bytes.fromhex(value)


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UndecodableError(f"{key}: not a string")
    return value


def _contents(fields: dict[str, Any], key: str, *, beside: frozenset[str]) -> list[dict[str, Any]]:
    """Return what lies within; something unknown in its place is another signal or another form, and no empty one."""
    if key not in fields and not fields.keys() <= beside:
        raise UndecodableError(f"the body is not an OTLP trace request: it has no {key}")
    return _objects(fields, key)


def _object(fields: dict[str, Any], key: str) -> dict[str, Any]:
    value = fields.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UndecodableError(f"{key}: not an object")
    return value


def _objects(fields: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = fields.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not {*map(type, value)} <= _ONLY_OBJECTS:
        raise UndecodableError(f"{key}: not a list of objects")
    return value
