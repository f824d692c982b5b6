"""The way of an event: into the store, then into the active set; its sender is answered in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandgauge_poller.ingest.events import LifecycleEvent, StartEvent
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking.active_set import ActiveSet, Change, ChangeKind, SandboxKey, Tracked
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.store import EventKind, EventRow


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a request's events."""

    accepted: int
    repeated: int
    over_capacity: int


class Tracker:
    """Commit events, fold them in, and tell `on_change` what they changed."""

    def __init__(self, database: Database, active: ActiveSet, on_change: Callable[[Change], None]) -> None:
        self._database = database
        self._active = active
        self._on_change = on_change

    async def restore(self) -> int:
        """Fold the stored events again and return how many sandboxes are back."""
        events, progress = await self._database.write(
            lambda connection: (list(store.load_events(connection)), store.load_all_progress(connection))
        )
        for event in events:
            self._active.apply(event)
        for sandbox in self._active:
            sandbox.progress = progress.get(sandbox.key, sandbox.progress)
        for sandbox in self._active:
            self._on_change(Change(ChangeKind.RESTORED, sandbox))
        return len(self._active)

    async def accept(self, events: Sequence[LifecycleEvent]) -> Accepted:
        """Store events and fold in what is news; returns only after the commit."""
        rows, over_capacity = self._admit(events)
        news = await self._database.write(lambda connection: store.insert_events(connection, rows))
        for row, is_news in zip(rows, news, strict=True):
            if is_news:
                for change in self._active.apply(row.event):
                    self._on_change(change)
        accepted = sum(news)
        return Accepted(accepted, len(rows) - accepted, over_capacity)

    async def finish(self, sandbox: Tracked, now_ns: int) -> None:
        """Let go of a sandbox that is done with."""
        self._active.discard(sandbox)
        await self._database.write(lambda connection: store.finish(connection, sandbox.key, now_ns))

    async def prune(self, before_ns: int, most_rows: int) -> None:
        """Forget in the store what is past its memory and needed by no live sandbox."""
        needed: set[tuple[EventKind, str]] = set()
        for sandbox in self._active:
            start = sandbox.lifecycle.start
            if start is not None:
                needed.add((EventKind.ROLLOUT, start.trace_id.hex()))
                needed.add((EventKind.REQUEST, start.record.keys.request_id or ""))
        await self._database.write(lambda connection: store.prune(connection, before_ns, most_rows, needed))

    def _admit(self, events: Sequence[LifecycleEvent]) -> tuple[list[EventRow], int]:
        rows: list[EventRow] = []
        newcomers: set[SandboxKey] = set()
        over_capacity = 0
        for event in events:
            key = self._active.key_of(event)
            if isinstance(event, StartEvent) and key is not None and self._active.get(key) is None:
                newcomers.add(key)
                if len(self._active) + len(newcomers) > self._active.capacity:
                    newcomers.discard(key)
                    over_capacity += 1
                    continue
            rows.append(EventRow(event, key))
        return rows, over_capacity
