"""The pure fold: what the set of events says of one sandbox, in whatever order and however often they come."""

from dataclasses import dataclass, replace
from typing import TypeVar

from sandgauge_poller.ingest.events import RolloutEvent, SpanEvent, StartEvent, StopEvent
from sandgauge_schemas.records import JoinKeys

_Event = TypeVar("_Event", bound=SpanEvent)

RolloutName = tuple[bytes | str, str | None]
"""A rollout: its trace id or its run id, and its rollout id; a trace id alone is whichever rollout the trace has."""


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What the events of one sandbox say together.

    `start` is the earliest start span and `naming_start` the earliest that names a rollout; `stop` the earliest
    stop that did not fail. `conflicting` is set once two start spans name different rollouts.
    """

    start: StartEvent | None = None
    naming_start: StartEvent | None = None
    stop: StopEvent | None = None
    conflicting: bool = False

    def with_start(self, event: StartEvent) -> "Lifecycle":
        """Fold a start span in."""
        conflicting = self.conflicting
        naming = self.naming_start
        if event.record.keys.rollout_id is not None:
            conflicting = conflicting or (naming is not None and _rollout(naming) != _rollout(event))
            naming = earliest(naming, event)
        return Lifecycle(earliest(self.start, event), naming, self.stop, conflicting)

    def with_stop(self, event: StopEvent) -> "Lifecycle":
        """Fold a stop span in; a failed one changes nothing, for the sandbox lives on."""
        return self if event.failed else replace(self, stop=earliest(self.stop, event))

    @property
    def rollout_names(self) -> frozenset[RolloutName]:
        """Names under which the sandbox's rollout may come; one trace may hold other rollouts than that it names."""
        if self.start is None:
            return frozenset()
        if self.naming_start is None:
            return frozenset({(self.start.trace_id, None)})
        keys = self.join_keys(None)
        return _names(keys.rollout_id, self.start.trace_id, self.naming_start.trace_id, keys.run_id)

    def join_keys(self, rollout: RolloutEvent | None) -> JoinKeys:
        """Return the keys of the sandbox's records; `rollout` is the earliest rollout span under one of its names."""
        if self.start is None:
            return JoinKeys()
        keys = self.start.record.keys
        run_id, rollout_id = keys.run_id, keys.rollout_id
        if self.naming_start is not None:
            naming = self.naming_start.record.keys
            run_id, rollout_id = naming.run_id or run_id, naming.rollout_id
        elif rollout is not None:
            run_id, rollout_id = run_id or rollout.keys.run_id, rollout.keys.rollout_id
        if (run_id, rollout_id) == (keys.run_id, keys.rollout_id):
            return keys
        return replace(keys, run_id=run_id, rollout_id=rollout_id)


def rollout_names(event: RolloutEvent) -> frozenset[RolloutName]:
    """Return every name under which a sandbox may know the rollout."""
    return _names(event.keys.rollout_id, event.trace_id, event.keys.run_id) | {(event.trace_id, None)}


def earliest(first: _Event | None, second: _Event) -> _Event:
    """Return the event that wins: the earliest start time, then the lowest (trace id, span id)."""
    return second if first is None or second.order < first.order else first


def _rollout(event: StartEvent) -> tuple[str | None, str | None]:
    return (event.record.keys.run_id, event.record.keys.rollout_id)


def _names(rollout_id: str | None, *groups: bytes | str | None) -> frozenset[RolloutName]:
    """Return the names of a rollout in its trace and its run; ids repeat between runs, so that alone is none."""
    return frozenset((group, rollout_id) for group in groups if group is not None)
