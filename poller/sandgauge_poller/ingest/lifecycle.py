"""From a span to a lifecycle event, or to the reason why it is none: pure, and the only place that decides it."""

import re
from dataclasses import dataclass

from sandgauge_poller.ingest.events import LifecycleEvent, RequestEvent, RolloutEvent, SpanFields, StartEvent, StopEvent
from sandgauge_poller.ingest.spans import SpanData
from sandgauge_schemas import names
from sandgauge_schemas.attributes import text
from sandgauge_schemas.names import SpanOutcome, SpanReason
from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord

SANDBOX_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What a sandbox id may be made of; it ends up in a URL path."""

_EARLIEST_NS = 946_684_800_000_000_000
"""2000-01-01: an earlier time was never set."""

_LATEST_AHEAD_NS = 60_000_000_000
"""A sender's clock may run this far ahead; a later time is not true."""


@dataclass(frozen=True, slots=True)
class Interpreted:
    """What a span means: `event` is None unless it is accepted, `reason` says why, or what is odd about the event."""

    outcome: SpanOutcome
    reason: SpanReason | None
    event: LifecycleEvent | None = None


def interpret(span: SpanData, received_ns: int) -> Interpreted:
    """Say what a span means; `received_ns` is the poller's clock, ns since the epoch."""
    if not _is_id(span.trace_id, 16) or not _is_id(span.span_id, 8):
        return Interpreted(SpanOutcome.REJECTED, SpanReason.BAD_SPAN_IDS)
    if span.name == names.SPAN_GYM_SANDBOX_REQUEST:
        return _request(span, received_ns)
    if span.name == names.SPAN_GYM_ROLLOUT:
        return _rollout(span, received_ns)
    return _start_or_stop(span, received_ns)


def _request(span: SpanData, received_ns: int) -> Interpreted:
    record = RequestRecord.from_attributes(span.attributes)
    if record.keys.request_id is None:
        return Interpreted(SpanOutcome.REJECTED, SpanReason.NO_REQUEST_ID)
    return _accepted(span, RequestEvent(**_common(span, received_ns), record=record))


def _rollout(span: SpanData, received_ns: int) -> Interpreted:
    keys = JoinKeys.from_attributes(span.attributes)
    if keys.rollout_id is None:
        return Interpreted(SpanOutcome.IGNORED, SpanReason.NO_ROLLOUT_ID)
    return _accepted(span, RolloutEvent(**_common(span, received_ns), keys=keys))


def _start_or_stop(span: SpanData, received_ns: int) -> Interpreted:
    is_start = span.name == names.SPAN_GYM_SANDBOX_START
    sandbox_id = text(span.attributes, names.NEMO_GYM_SANDBOX_ID)
    if sandbox_id is None:
        return Interpreted(SpanOutcome.IGNORED, SpanReason.NOT_CREATED if is_start else SpanReason.NO_SANDBOX_ID)
    if not SANDBOX_ID.fullmatch(sandbox_id):
        return Interpreted(SpanOutcome.REJECTED, SpanReason.BAD_SANDBOX_ID)
    common = _common(span, received_ns)
    if is_start:
        record = StartRecord.from_attributes(span.attributes)
        start = StartEvent(**common, record=record, instrumentation=span.instrumentation, sender=span.sender)
        return _accepted(span, start)
    keys = JoinKeys.from_attributes(span.attributes)
    scope = text(span.attributes, names.NEMO_GYM_SANDBOX_SCOPE)
    return _accepted(span, StopEvent(**common, keys=keys, scope=scope, failed=span.failed))


def _common(span: SpanData, received_ns: int) -> SpanFields:
    start_ns, end_ns = _time(span.start_ns, received_ns), _time(span.end_ns, received_ns)
    if start_ns is not None and end_ns is not None and end_ns < start_ns:
        end_ns = None
    return SpanFields(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id if _is_id(span.parent_span_id, 8) else None,
        start_ns=start_ns,
        end_ns=end_ns,
        received_ns=received_ns,
    )


def _accepted(span: SpanData, event: LifecycleEvent) -> Interpreted:
    odd = (event.start_ns, event.end_ns) != (span.start_ns, span.end_ns)
    return Interpreted(SpanOutcome.ACCEPTED, SpanReason.ODD_TIME if odd else None, event)


def _time(time_ns: int, received_ns: int) -> int | None:
    return time_ns if _EARLIEST_NS <= time_ns <= received_ns + _LATEST_AHEAD_NS else None


def _is_id(value: bytes, length: int) -> bool:
    return len(value) == length and any(value)
