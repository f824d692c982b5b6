"""The neutral form of a span: what the two encodings of OTLP are decoded to, before anyone asks what it means."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import ClassVar, NamedTuple

from sandgauge_schemas import names
from sandgauge_schemas.attributes import AttributeValue
from sandgauge_schemas.names import SpanReason
from sandgauge_schemas.records import REQUEST_KEYS, START_KEYS

LIFECYCLE_SPANS = frozenset(
    {
        names.SPAN_GYM_SANDBOX_REQUEST,
        names.SPAN_GYM_SANDBOX_START,
        names.SPAN_GYM_SANDBOX_STOP,
        names.SPAN_GYM_ROLLOUT,
    }
)
"""Names of the spans that the poller looks into; of any other span only the name is read."""

RESOURCE_KEYS = (names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID)
"""Join keys that a span inherits from its Resource when it has none of its own."""

MAX_TEXT = 1024
"""Longest text kept of an attribute, in characters; a longer one, and one that is no Unicode, counts as absent."""


KEPT_ATTRIBUTES = frozenset({*REQUEST_KEYS, *START_KEYS})
"""Attributes of a lifecycle span that mean something; the value of any other is not even looked at."""

MOST_SPANS = 50_000
"""Most spans of one request: six times what a Collector puts into one unless told otherwise."""

MOST_LIFECYCLE_SPANS = 10_000
"""Most of these that are lifecycle spans: to store them, and follow so many in place of others, takes a second."""

MOST_ITEMS = 1_000_000
"""Most fields of one request in protobuf, or commas and opening brackets in JSON: each takes up to 250 bytes."""


ASK_EACH = 64
"""Spans from one question to the next whether a body is still wanted: a millisecond."""


class UndecodableError(ValueError):
    """A body is not the OTLP trace request that its content type says."""

    status: ClassVar[HTTPStatus] = HTTPStatus.BAD_REQUEST
    reason: ClassVar[SpanReason] = SpanReason.UNDECODABLE


class TooManyItemsError(UndecodableError):
    """A body would take far more memory than its size says."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    reason = SpanReason.TOO_MANY_ITEMS

    def __init__(self) -> None:
        super().__init__(
            f"more than {MOST_SPANS} spans, {MOST_LIFECYCLE_SPANS} lifecycle spans, or {MOST_ITEMS} fields or values; "
            "send smaller batches"
        )


class AbandonedError(Exception):
    """Nobody waits any more for what a body means."""


def always() -> bool:
    """Say that it is still waited for."""
    return True


class SpanData(NamedTuple):
    """One lifecycle span as it came; ids of any length, times in ns (0: not given)."""

    name: str
    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    start_ns: int
    end_ns: int
    failed: bool
    instrumentation: str | None
    """Name of the instrumentation scope that made it."""
    attributes: dict[str, AttributeValue]
    sender: str | None = None
    """What its Resource calls the service that sent it, with the version."""
    contradictory: bool = False
    """Whether an attribute stood there or in its Resource twice with different values; the last one won."""


@dataclass(slots=True)
class Decoded:
    """What a request held: its lifecycle spans, and how many others were passed over, by reason.

    Taking it down ends with AbandonedError once `is_wanted` says no.
    """

    is_wanted: Callable[[], bool] = field(default=always, compare=False)
    spans: list[SpanData] = field(default_factory=list)
    passed_over: Counter[SpanReason] = field(default_factory=Counter)
    _count: int = field(default=0, compare=False)

    def add(self, span: SpanData) -> None:
        """Keep a span; raises TooManyItemsError."""
        self.spans.append(span)
        if len(self.spans) > MOST_LIFECYCLE_SPANS:
            raise TooManyItemsError
        self._check()

    def pass_over(self, reason: SpanReason) -> None:
        """Count a span that nobody looks into; raises TooManyItemsError."""
        self.passed_over[reason] += 1
        self._check()

    def _check(self) -> None:
        self._count += 1
        if self._count > MOST_SPANS:
            raise TooManyItemsError
        if self._count % ASK_EACH == 0 and not self.is_wanted():
            raise AbandonedError


class AttributeCollector:
    """Gather attributes of KEPT_ATTRIBUTES, and notice contradictions."""

    def __init__(self) -> None:
        self.values: dict[str, AttributeValue] = {}
        self.contradictory = False

    def add(self, key: str, value: AttributeValue | None) -> None:
        """Keep an attribute; None (empty, or of a kind not used) counts as absent, as does a text that is too long."""
        if value is None or (isinstance(value, str) and len(value) > MAX_TEXT):
            return
        if key in self.values:
            self.contradictory = self.contradictory or self.values[key] != value
        self.values[key] = value


def is_unicode(value: str) -> bool:
    """Whether a text can be stored and sent: JSON can write half a surrogate pair, and nothing after it can."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def usable_name(value: str) -> str | None:
    """Return a name of which something can be said, else None."""
    return value if value and len(value) <= MAX_TEXT and is_unicode(value) else None


def sender_of(service_name: object, service_version: object) -> str | None:
    """Return name and version of a Resource's service as one text, as far as both can be shown.

    Thousands of spans come from one service, and keep one text.
    """
    name, version = (
        usable_name(value) if isinstance(value, str) and value.isprintable() else None
        for value in (service_name, service_version)
    )
    return None if name is None else sys.intern(name if version is None else f"{name} {version}")


def inherit(values: dict[str, AttributeValue], resource: dict[str, AttributeValue]) -> dict[str, AttributeValue]:
    """Return a span's attributes with the join keys of its Resource where it has none of its own."""
    if resource:
        for key in RESOURCE_KEYS:
            if key not in values and key in resource:
                values[key] = resource[key]
    return values
