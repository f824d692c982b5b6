"""Lifecycle events: what a span of a sandbox's life says, once it is decoded and within bounds.

Times are nanoseconds since the epoch on the sender's clock; None where the span had none that can be true.
`received_ns` is the poller's own clock when the request came in.
"""

from dataclasses import dataclass
from typing import TypedDict

from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord

_NO_TIME = 2**64
"""A span without times comes after every span that has one, whenever it arrived."""


class NotStoredError(Exception):
    """Events that cannot be stored just now; whoever sent them may send them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """What every event has: the identity of its span (16 and 8 bytes) and its times."""

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    received_ns: int

    @property
    def order(self) -> tuple[int, bytes, bytes]:
        """Sort key that settles conflicts: earliest start, then lowest (trace id, span id)."""
        times = (time for time in (self.start_ns, self.end_ns) if time is not None)
        return (next(times, _NO_TIME), self.trace_id, self.span_id)


class SpanFields(TypedDict):
    """What SpanEvent is made of, for those who make events of several kinds."""

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes | None
    start_ns: int | None
    end_ns: int | None
    received_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent(SpanEvent):
    """A logical request for sandboxes; its record has a request id."""

    record: RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEvent(SpanEvent):
    """A sandbox came up; its record has a sandbox id that fits the contract."""

    record: StartRecord
    instrumentation: str | None = None
    """Name of the instrumentation scope that made the span: stock Gym's or the emitter's."""
    sender: str | None = None
    """What its Resource calls the service that sent it, with the version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopEvent(SpanEvent):
    """A sandbox was deleted, or, when `failed`, lives on."""

    keys: JoinKeys
    scope: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutEvent(SpanEvent):
    """A rollout ended; it names the rollout of everything in its trace."""

    keys: JoinKeys


LifecycleEvent = RequestEvent | StartEvent | StopEvent | RolloutEvent
