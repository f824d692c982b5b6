"""The active set in memory: every sandbox that the poller has heard of and not yet done with."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from sandgauge_poller.ingest.events import LifecycleEvent, RequestEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.tracking.bounded import BoundedDict
from sandgauge_poller.tracking.fold import Lifecycle, RolloutName, earliest, rollout_names
from sandgauge_poller.tracking.phase import phase
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.recent import Recent
from sandgauge_poller.tracking.routing import RouteOutcome, Routing
from sandgauge_poller.tracking.unseen import Unseen, Vouches, vouches_for_none
from sandgauge_schemas.records import JoinKeys

_Key = TypeVar("_Key", RolloutName, str)


class SandboxKey(NamedTuple):
    """A sandbox: the deployment (or, without one, the provider) and the sandbox's id there."""

    owner: str
    sandbox_id: str


class ChangeKind(Enum):
    """What an event changed for a sandbox."""

    STARTED = "started"
    STOPPED = "stopped"
    STOP_FAILED = "stop_failed"
    KEYS_LEARNT = "keys_learnt"
    CONFLICTED = "conflicted"
    RESTORED = "restored"
    DISPLACED = "displaced"
    """It is tracked no more: a newcomer has its place."""


@dataclass(slots=True)
class Tracked:
    """One sandbox: what its events say, and what the poller itself has seen."""

    key: SandboxKey
    deployment: str | None
    outcome: RouteOutcome
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    progress: Progress = field(default_factory=Progress)
    rollout: RolloutEvent | None = None
    recent: Recent | None = None
    """What its readings said lately; None before the first of this process."""
    kept: object = field(default=None, compare=False, repr=False)
    """What the stage that records its readings keeps with it, as long as it is tracked."""
    phase: float = field(init=False)
    """Its own place within an interval."""
    _joined: "tuple[Lifecycle, RolloutEvent | None, JoinKeys] | None" = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.phase = phase(self.key.sandbox_id)

    @property
    def keys(self) -> JoinKeys:
        """Join keys as far as they are known now: the same object until one of them changes."""
        joined = self._joined
        if joined is None or joined[0] is not self.lifecycle or joined[1] is not self.rollout:
            joined = self._joined = (self.lifecycle, self.rollout, self.lifecycle.join_keys(self.rollout))
        return joined[2]


@dataclass(frozen=True, slots=True)
class Change:
    """A sandbox that an event touched, and how."""

    kind: ChangeKind
    sandbox: Tracked


class ActiveSet:
    """Apply events, in any order; `capacity` bounds sandboxes, four times as much stops and names of rollouts."""

    def __init__(self, routing: Routing, capacity: int, vouches: Vouches = vouches_for_none) -> None:
        self._routing = routing
        self._unseen = Unseen(vouches)
        self._capacity = capacity
        self._sandboxes: dict[SandboxKey, Tracked] = {}
        self._by_rollout: dict[RolloutName, list[Tracked]] = {}
        self._by_id: dict[str, list[Tracked]] = {}
        self._rollouts: BoundedDict[RolloutName, RolloutEvent] = BoundedDict(4 * capacity)
        self._waiting_stops: BoundedDict[SandboxKey, StopEvent] = BoundedDict(4 * capacity)

    def __len__(self) -> int:
        return len(self._sandboxes)

    def __iter__(self) -> Iterator[Tracked]:
        return iter(list(self._sandboxes.values()))

    def get(self, key: SandboxKey) -> Tracked | None:
        """Return the sandbox, or None once it is done with."""
        return self._sandboxes.get(key)

    def with_id(self, sandbox_id: str) -> tuple[Tracked, ...]:
        """Return the sandboxes of that id: one for each deployment that has it."""
        return tuple(self._by_id.get(sandbox_id, ()))

    @property
    def capacity(self) -> int:
        """Most sandboxes tracked at once."""
        return self._capacity

    def key_of(self, event: LifecycleEvent) -> SandboxKey | None:
        """Return whose event it is; None for one that is about no single sandbox."""
        if isinstance(event, StartEvent):
            return self._key(event.record.keys, event.record.scope)
        if isinstance(event, StopEvent):
            return self._key(event.keys, event.scope)
        return None

    def apply(self, event: LifecycleEvent) -> list[Change]:
        """Fold one event in and return the sandboxes that it changed."""
        match event:
            case RequestEvent():
                return []  # the inventory is looked up in the store when a summary echoes it
            case StartEvent():
                return self._apply_start(event)
            case StopEvent():
                return self._apply_stop(event)
            case RolloutEvent():
                return self._apply_rollout(event)

    def make_room(self, start: StartEvent) -> Tracked | None:
        """Discard a sandbox of which nothing was seen, and for which no more speaks than for a newcomer; return it."""
        keys = start.record.keys
        route = self._routing.route(keys.provider, start.record.scope)
        sandbox = self._unseen.take(self._unseen.rank(route.outcome, route.deployment, start))
        if sandbox is not None:
            self.discard(sandbox)
        return sandbox

    def deny(self, sandbox: Tracked) -> None:
        """Note that the control plane says of a sandbox that it does not exist."""
        if self._sandboxes.get(sandbox.key) is sandbox:
            self._unseen.deny(sandbox)

    def put_back(self, sandbox: Tracked) -> None:
        """Track a sandbox again that made room for nobody."""
        if sandbox.lifecycle.start is not None and sandbox.key not in self._sandboxes:
            self._add(sandbox, sandbox.lifecycle.start)
            self._rename(sandbox, frozenset(), sandbox.lifecycle.rollout_names)

    def discard(self, sandbox: Tracked) -> None:
        """Forget a sandbox that is done with."""
        if self._sandboxes.pop(sandbox.key, None) is None:
            return
        self._unseen.discard(sandbox.key)
        for name in sandbox.lifecycle.rollout_names:
            _remove(self._by_rollout, name, sandbox)
        _remove(self._by_id, sandbox.key.sandbox_id, sandbox)

    def _key(self, keys: JoinKeys, scope: str | None) -> SandboxKey:
        return SandboxKey(self._routing.route(keys.provider, scope).owner, keys.sandbox_id or "")

    def _apply_start(self, event: StartEvent) -> list[Change]:
        keys = event.record.keys
        route = self._routing.route(keys.provider, event.record.scope)
        key = SandboxKey(route.owner, keys.sandbox_id or "")
        sandbox = self._sandboxes.get(key)
        if sandbox is None:
            sandbox = Tracked(key, route.deployment, route.outcome)
            self._add(sandbox, event)
        previous, agreed = sandbox.lifecycle.start, not sandbox.lifecycle.conflicting
        names = sandbox.lifecycle.rollout_names
        sandbox.lifecycle = sandbox.lifecycle.with_start(event)
        self._rename(sandbox, names, sandbox.lifecycle.rollout_names)
        for owner in self._routing.stop_owners(key.owner):
            stop = self._waiting_stops.get(SandboxKey(owner, key.sandbox_id))
            if stop is not None:
                sandbox.lifecycle = sandbox.lifecycle.with_stop(stop)
        changes = [Change(ChangeKind.STARTED if previous is None else ChangeKind.KEYS_LEARNT, sandbox)]
        if agreed and sandbox.lifecycle.conflicting:
            changes.append(Change(ChangeKind.CONFLICTED, sandbox))
        if sandbox.lifecycle.stop is not None:
            changes.append(Change(ChangeKind.STOPPED, sandbox))
        return changes

    def _add(self, sandbox: Tracked, start: StartEvent) -> None:
        self._sandboxes[sandbox.key] = sandbox
        self._by_id.setdefault(sandbox.key.sandbox_id, []).append(sandbox)
        self._unseen.add(sandbox, self._unseen.rank(sandbox.outcome, sandbox.deployment, start))

    def _apply_stop(self, event: StopEvent) -> list[Change]:
        route = self._routing.route(event.keys.provider, event.scope)
        key = SandboxKey(route.owner, event.keys.sandbox_id or "")
        if not event.failed and (key not in self._sandboxes or route.outcome is RouteOutcome.UNMATCHED):
            # A start that it is for may still come: here or, of a stop that names no deployment, in any it could mean.
            self._waiting_stops[key] = earliest(self._waiting_stops.get(key), event)
        kind = ChangeKind.STOP_FAILED if event.failed else ChangeKind.STOPPED
        changes = []
        for sandbox in self._by_id.get(key.sandbox_id, ()):
            if key.owner in self._routing.stop_owners(sandbox.key.owner):
                sandbox.lifecycle = sandbox.lifecycle.with_stop(event)
                changes.append(Change(kind, sandbox))
        return changes

    def _apply_rollout(self, event: RolloutEvent) -> list[Change]:
        changed: dict[SandboxKey, Tracked] = {}
        for name in rollout_names(event):
            self._rollouts[name] = earliest(self._rollouts.get(name), event)
            changed |= {sandbox.key: sandbox for sandbox in self._by_rollout.get(name, ())}
        for sandbox in changed.values():
            sandbox.rollout = earliest(sandbox.rollout, event)
        return [Change(ChangeKind.KEYS_LEARNT, sandbox) for sandbox in changed.values()]

    def _rename(self, sandbox: Tracked, before: frozenset[RolloutName], names: frozenset[RolloutName]) -> None:
        """Look for a sandbox's rollout under other names than before."""
        if names == before:
            return
        for name in before:
            _remove(self._by_rollout, name, sandbox)
        sandbox.rollout = None
        for name in names:
            self._by_rollout.setdefault(name, []).append(sandbox)
            rollout = self._rollouts.get(name)
            if rollout is not None:
                sandbox.rollout = earliest(sandbox.rollout, rollout)


def _remove(index: dict[_Key, list[Tracked]], key: _Key, sandbox: Tracked) -> None:
    entries = [entry for entry in index.get(key, ()) if entry is not sandbox]
    if entries:
        index[key] = entries
    else:
        index.pop(key, None)
