"""A lifecycle event as text, to be kept or handed on: what its span said, apart from the span's ids and kind."""

import json
import sys
from enum import Enum

from sandgauge_poller.ingest.events import LifecycleEvent, RequestEvent, RolloutEvent, SpanFields, StartEvent, StopEvent
from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord

_as_json = json.JSONEncoder(separators=(",", ":")).encode
_MOST_NS = 2**63 - 1
"""Latest time that the store can hold."""


class EventKind(Enum):
    """Kind of an event."""

    REQUEST = "request"
    START = "start"
    STOP = "stop"
    ROLLOUT = "rollout"


def encode_event(event: LifecycleEvent) -> tuple[EventKind, str, str]:
    """Return an event's kind, what it is about (a request, a sandbox, or a trace in hex), and the rest as JSON."""
    body: dict[str, object] = {"start": event.start_ns, "end": event.end_ns}
    if event.parent_span_id is not None:
        body["parent"] = event.parent_span_id.hex()
    match event:
        case RequestEvent():
            kind, subject, attributes = EventKind.REQUEST, event.record.keys.request_id, event.record.to_attributes()
        case StartEvent():
            kind, subject, attributes = EventKind.START, event.record.keys.sandbox_id, event.record.to_attributes()
            if event.instrumentation is not None:
                body["instrumentation"] = event.instrumentation
            if event.sender is not None:
                body["sender"] = event.sender
        case StopEvent():
            kind, subject, attributes = EventKind.STOP, event.keys.sandbox_id, event.keys.to_attributes()
            body |= {"scope": event.scope, "failed": event.failed}
        case RolloutEvent():
            kind, subject, attributes = EventKind.ROLLOUT, event.trace_id.hex(), event.keys.to_attributes()
    return kind, subject or "", _as_json(body | {"attributes": attributes})


def decode_event(
    trace_id: bytes, span_id: bytes, kind: EventKind, received_ns: int, body: bytes | str
) -> LifecycleEvent:
    """Return the event again; raises ValueError, TypeError or KeyError where the body is not one."""
    fields = json.loads(body)
    if not isinstance(fields, dict) or not isinstance(fields["attributes"], dict):
        raise TypeError("not what stands in the body of an event")
    attributes, parent = fields["attributes"], fields.get("parent")
    common = SpanFields(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=bytes.fromhex(parent) if parent else None,
        start_ns=_time(fields["start"]),
        end_ns=_time(fields["end"]),
        received_ns=received_ns,
    )
    match kind:
        case EventKind.REQUEST:
            return RequestEvent(**common, record=RequestRecord.from_attributes(attributes))
        case EventKind.START:
            record = StartRecord.from_attributes(attributes)
            sender = fields.get("sender")
            return StartEvent(
                **common,
                record=record,
                instrumentation=fields.get("instrumentation"),
                sender=None if sender is None else sys.intern(sender),
            )
        case EventKind.STOP:
            keys, scope, failed = JoinKeys.from_attributes(attributes), fields["scope"], fields["failed"]
            return StopEvent(**common, keys=keys, scope=scope, failed=failed)
        case EventKind.ROLLOUT:
            return RolloutEvent(**common, keys=JoinKeys.from_attributes(attributes))


def _time(value: object) -> int | None:
    if value is not None and not (isinstance(value, int) and 0 <= value <= _MOST_NS):
        raise ValueError("not a time")
    return value
