"""What stands in the topics that pollers share, as keys and values: pure, and read back by any later release.

The topic of sandboxes is compacted: of each key the last value stays. So every event has a key of its own, what was
seen of a sandbox has one, and so has the fact that it is done with. An empty value takes a key away.
"""

import json
from dataclasses import dataclass

from sandgauge_poller.ingest.event_json import EventKind, decode_event, encode_event
from sandgauge_poller.ingest.events import LifecycleEvent, StartEvent, StopEvent
from sandgauge_poller.ingest.lifecycle import SANDBOX_ID

_as_json = json.JSONEncoder(separators=(",", ":")).encode
_as_text = json.JSONEncoder(ensure_ascii=False).encode
_MOST_NS = 2**63 - 1
"""Latest time that a store can hold."""
_TRACE_ID_BYTES, _SPAN_ID_BYTES = 16, 8


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A lifecycle event."""

    event: LifecycleEvent


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """What the owner of a sandbox has seen of it, as JSON, until a time (ns since the epoch on that poller's clock)."""

    owner: str
    sandbox_id: str
    updated_ns: int
    progress: str


@dataclass(frozen=True, slots=True)
class DoneRecord:
    """That a sandbox is done with, and since when (ns since the epoch)."""

    owner: str
    sandbox_id: str
    at_ns: int


Record = EventRecord | ProgressRecord | DoneRecord


class UnreadableRecordError(ValueError):
    """A message is no record: somebody else writes to the topic, or a later release does."""


def sandbox_of(event: LifecycleEvent) -> str | None:
    """Return the id of the sandbox that an event is about; None for a request or a rollout, which are everybody's."""
    if isinstance(event, StartEvent):
        return event.record.keys.sandbox_id
    return event.keys.sandbox_id if isinstance(event, StopEvent) else None


def event_key(trace_id: bytes, span_id: bytes) -> bytes:
    """Return the key of the event of a span."""
    return f"event/{trace_id.hex()}/{span_id.hex()}".encode()


def progress_key(owner: str, sandbox_id: str) -> bytes:
    """Return the key of what was seen of a sandbox; an id holds no slash, an owner may."""
    return f"progress/{sandbox_id}/{owner}".encode()


def done_key(owner: str, sandbox_id: str) -> bytes:
    """Return the key of the fact that a sandbox is done with."""
    return f"done/{sandbox_id}/{owner}".encode()


def encode_record(record: Record) -> tuple[bytes, bytes]:
    """Return a record's key and value."""
    match record:
        case EventRecord(event):
            kind, _, body = encode_event(event)
            value: dict[str, object] = {"kind": kind.value, "received_ns": event.received_ns, "body": body}
            key = event_key(event.trace_id, event.span_id)
        case ProgressRecord(owner, sandbox_id, updated_ns, progress):
            key, value = progress_key(owner, sandbox_id), {"updated_ns": updated_ns, "progress": progress}
        case DoneRecord(owner, sandbox_id, at_ns):
            key, value = done_key(owner, sandbox_id), {"at_ns": at_ns}
    return key, _as_json(value).encode()


def decode_record(key: bytes, value: bytes) -> Record:
    """Read a record back; raises UnreadableRecordError."""
    try:
        kind, first, second = key.decode().split("/", 2)
        fields = json.loads(value)
        if kind == "progress":
            return ProgressRecord(second, _sandbox_id(first), _time(fields["updated_ns"]), str(fields["progress"]))
        if kind == "done":
            return DoneRecord(second, _sandbox_id(first), _time(fields["at_ns"]))
        if kind == "event":
            return EventRecord(_event(bytes.fromhex(first), bytes.fromhex(second), fields))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreadableRecordError(type(error).__name__) from error
    raise UnreadableRecordError("unknown key")


def _event(trace_id: bytes, span_id: bytes, fields: dict[str, str]) -> LifecycleEvent:
    """Return an event that is as sound as one whose span was taken in; raises ValueError, TypeError or KeyError."""
    if len(trace_id) != _TRACE_ID_BYTES or len(span_id) != _SPAN_ID_BYTES:
        raise ValueError("no ids of a span")
    _as_text(json.loads(fields["body"])).encode()  # fails where a text is no Unicode: nothing could store or send it
    kind, received_ns = EventKind(fields["kind"]), _time(fields["received_ns"])
    event = decode_event(trace_id, span_id, kind, received_ns, fields["body"])
    if isinstance(event, StartEvent | StopEvent):
        _sandbox_id(sandbox_of(event) or "")
    return event


def _sandbox_id(text: str) -> str:
    if not SANDBOX_ID.fullmatch(text):
        raise ValueError("no id of a sandbox")
    return text


def _time(value: object) -> int:
    if not (isinstance(value, int) and 0 <= value <= _MOST_NS):
        raise ValueError("not a time")
    return value
