"""OTLP/JSON trace requests: the sandbox and rollout spans in them, with the attributes that a report is made of.

Tolerant, since files come from anywhere: what has the wrong type counts as absent, ids are taken as they are.
"""

from collections.abc import Callable, Iterator, Mapping
from sys import intern
from typing import Any, NamedTuple

from sandgauge_schemas import names
from sandgauge_schemas.attributes import AttributeValue, text
from sandgauge_schemas.records.keys import JOIN_KEYS
from sandgauge_schemas.resources import LARGEST_AMOUNT
from sandgauge_schemas.wording import printable

SPANS = frozenset(
    {
        names.SPAN_GYM_ROLLOUT,
        names.SPAN_GYM_SANDBOX_REQUEST,
        names.SPAN_GYM_SANDBOX_START,
        names.SPAN_GYM_SANDBOX_STOP,
        names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
        names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
        names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    }
)
"""Names of the spans that a report is made of."""

_INHERITED = frozenset({names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID, names.NEMO_GYM_SERVER_NAME})
"""Attributes that a span takes over from its Resource where it has none of its own."""

_OTHER_SIGNALS = frozenset({"resourceMetrics", "resourceLogs", "resourceProfiles"})
_ERROR_CODES = (2, "2", "STATUS_CODE_ERROR")
_ID_LENGTHS = (16, 32)

# OpenTelemetry's own names of a failure, not of this project's contract.
_EXCEPTION, _EXCEPTION_TYPE = "exception", "exception.type"


class NotTracesError(ValueError):
    """A JSON document is no OTLP trace request; the message says why."""


class Span(NamedTuple):
    """One span; times are ns since the epoch, 0 where none is given."""

    name: str
    trace_id: str
    span_id: str
    start_ns: int
    end_ns: int
    failed: bool
    error_type: str | None
    attributes: Mapping[str, AttributeValue]


def spans(document: Any) -> Iterator[Span]:
    """Yield the spans of SPANS in a request, or in a list of requests. Raise NotTracesError."""
    for request in document if isinstance(document, list) else (document,):
        if not isinstance(request, dict):
            raise NotTracesError("no OTLP request: not a JSON object")
        try:
            yield from _of_request(request)
        except (AttributeError, KeyError, TypeError) as error:
            raise NotTracesError("no OTLP trace request: something in it has the wrong type") from error


def _of_request(request: Mapping[str, Any]) -> Iterator[Span]:
    groups = request.get("resourceSpans")
    if groups is None:
        if request and request.keys().isdisjoint(_OTHER_SIGNALS):
            raise NotTracesError("no OTLP request: it has no resourceSpans")
        return
    for group in groups:
        if "scopeSpans" not in group and "instrumentationLibrarySpans" in group:
            raise NotTracesError("instrumentationLibrarySpans: a form of OTLP before 1.0")
        resource = plain((group.get("resource") or {}).get("attributes") or ())
        shared = {key: resource[key] for key in _INHERITED if key in resource}
        for scope in group.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                if span.get("name") in SPANS:
                    yield _span(span, shared)


def _span(span: Mapping[str, Any], shared: Mapping[str, AttributeValue]) -> Span:
    name, status, events = span["name"], span.get("status"), span.get("events")
    wanted = _OF_SAMPLES if name == names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE else None
    return Span(
        name,
        _id(span.get("traceId")),
        _id(span.get("spanId")),
        _nanoseconds(span.get("startTimeUnixNano")),
        _nanoseconds(span.get("endTimeUnixNano")),
        status is not None and status.get("code") in _ERROR_CODES,
        _error_type(events) if events else None,
        {**shared, **plain(span.get("attributes") or (), wanted)},
    )


def plain(attributes: Any, wanted: frozenset[str] | None = None) -> dict[str, AttributeValue]:
    """Return the attributes that are wanted, by default all, as Python has them; one that cannot be read is absent."""
    found: dict[str, AttributeValue] = {}
    for attribute in attributes:
        key = attribute["key"]
        if wanted is None or key in wanted:
            for kind, content in (attribute.get("value") or {}).items():
                is_text = kind == "stringValue" and type(content) is str and content.isprintable()
                # The same few texts come with every span of a sandbox: one of each is kept.
                value = intern(content) if is_text else _converted(kind, content)
                if value is not None:
                    found[key] = value
    return found


_OF_SAMPLES = frozenset(
    {
        *JOIN_KEYS,
        names.ERROR_TYPE,
        names.NEMO_GYM_SANDBOX_RESOURCE_STATUS,
        names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE,
        names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE,
        names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_CORES,
        names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_WORKING_SET_MIB,
        names.NEMO_GYM_SANDBOX_SAMPLE_OOM_KILLS,
    }
)
"""Attributes of samples that matter here; of nearly all spans no other is even looked at."""


def _converted(kind: str, content: Any) -> AttributeValue | None:
    convert = _CONVERTERS.get(kind)
    return None if convert is None else convert(content)


def _text(content: Any) -> str | None:
    """Read a text: what a terminal, a page or a file is not to get is an escape from here on."""
    return printable(content) if isinstance(content, str) else None


def _flag(content: Any) -> bool | None:
    return content if isinstance(content, bool) else None


def _whole(content: Any) -> int | None:
    """Read a 64-bit number, which OTLP/JSON writes as text, and some senders as a number."""
    if isinstance(content, bool) or not isinstance(content, int | str):
        return None
    try:
        value = int(content)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST_AMOUNT else None


def _double(content: Any) -> float | None:
    """Read a double, which some senders write as text; one that is beyond everything real is none."""
    if isinstance(content, bool) or not isinstance(content, int | float | str):
        return None
    try:
        value = float(content)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) <= LARGEST_AMOUNT else None


def _texts(content: Any) -> tuple[str, ...] | None:
    values = content.get("values") if isinstance(content, dict) else None
    return tuple(value for holder in values or () if (value := _text(holder.get("stringValue"))) is not None)


_CONVERTERS: Mapping[str, Callable[[Any], AttributeValue | None]] = {
    "stringValue": _text,
    "boolValue": _flag,
    "intValue": _whole,
    "doubleValue": _double,
    "arrayValue": _texts,
}


def _id(content: Any) -> str:
    """Return an id; hex in one case, so that a repeat is known, and any other form as it is."""
    found = _text(content) or ""
    return found.lower() if len(found) in _ID_LENGTHS else found


def _nanoseconds(content: Any) -> int:
    return max(0, _whole(content) or 0)


def _error_type(events: Any) -> str | None:
    """Return why a span failed: its exception event says it."""
    for event in events:
        if event.get("name") == _EXCEPTION:
            return text(plain(event.get("attributes") or ()), _EXCEPTION_TYPE)
    return None
