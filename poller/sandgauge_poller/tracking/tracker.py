"""The way of an event: into the store, then into the active set; its sender is answered in between."""

from collections.abc import Callable, Sequence

from sandgauge_poller.ingest.event_json import EventKind
from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError, StartEvent
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking.active_set import ActiveSet, Change, ChangeKind, SandboxKey, Tracked
from sandgauge_poller.tracking.bounded import BoundedDict
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.store import EventRow
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import SpanOutcome

_RECENTLY_DONE = 10_000
"""Sandboxes remembered in memory as done with; the store remembers them longer."""


class Tracker:
    """Commit events, fold them in, and tell `on_change` what they changed."""

    def __init__(self, database: Database, active: ActiveSet, on_change: Callable[[Change], None]) -> None:
        self._database = database
        self._active = active
        self._on_change = on_change
        self._done: BoundedDict[SandboxKey, bool] = BoundedDict(_RECENTLY_DONE)
        self._arriving: set[SandboxKey] = set()
        """Sandboxes whose first start is on its way through the store: they fill the capacity already."""

    async def restore(self) -> int:
        """Fold the stored events again and return how many sandboxes are back."""
        events, progress = await self._database.write(
            lambda connection: (
                store.load_events(connection, self._active.key_of),
                store.load_all_progress(connection),
            )
        )
        for event in events:
            self._active.apply(event)
        for sandbox in self._active:
            sandbox.progress = progress.get(sandbox.key, sandbox.progress)
        for sandbox in self._active:
            self._on_change(Change(ChangeKind.RESTORED, sandbox))
        return len(self._active)

    async def commit(self, events: Sequence[LifecycleEvent]) -> list[SpanOutcome]:
        """Store events, fold in what is news, and say what became of each; returns only after the commit.

        Raises:
            NotStoredError: the disk cannot take them.

        """
        newcomers: set[SandboxKey] = set()
        try:
            return await self._commit([self._admit(event, newcomers) for event in events])
        except StateError as error:
            raise NotStoredError(str(error)) from error
        finally:
            self._arriving -= newcomers

    async def _commit(self, rows: Sequence[EventRow | None]) -> list[SpanOutcome]:
        admitted = [row for row in rows if row is not None]
        news = iter(await self._database.write(lambda connection: store.insert_events(connection, admitted)))
        outcomes = []
        for row in rows:
            if row is None:
                outcomes.append(SpanOutcome.REJECTED)
            elif next(news) and not self._is_done(row):
                outcomes.append(SpanOutcome.ACCEPTED)
                for change in self._active.apply(row.event):
                    self._on_change(change)
            else:
                outcomes.append(SpanOutcome.REPEATED)
        return outcomes

    async def finish(self, sandbox: Tracked, now_ns: int) -> None:
        """Let go of a sandbox that is done with."""
        self._active.discard(sandbox)
        self._done[sandbox.key] = True
        await self._database.write(lambda connection: store.finish(connection, sandbox.key, now_ns))

    async def forget_unread(self, before_ns: int, is_read: Callable[[Tracked], bool], now_ns: int) -> None:
        """Let go of sandboxes that nobody reads and whose stop never came."""
        for sandbox in self._active:
            start = sandbox.lifecycle.start
            if start is not None and start.received_ns < before_ns and not is_read(sandbox):
                await self.finish(sandbox, now_ns)

    async def prune(self, before_ns: int, most_rows: int) -> None:
        """Forget in the store what is past its memory and needed by no live sandbox."""
        needed: set[tuple[EventKind, str]] = set()
        for sandbox in self._active:
            start = sandbox.lifecycle.start
            if start is not None:
                needed.add((EventKind.REQUEST, start.record.keys.request_id or ""))
            if sandbox.rollout is not None:
                needed.add((EventKind.ROLLOUT, sandbox.rollout.trace_id.hex()))
            if sandbox.lifecycle.stop is not None:
                needed.add((EventKind.STOP, sandbox.key.sandbox_id))
        await self._database.write(lambda connection: store.prune(connection, before_ns, most_rows, needed))

    def _admit(self, event: LifecycleEvent, newcomers: set[SandboxKey]) -> EventRow | None:
        """Return the row to store; None for the start of a sandbox beyond the capacity."""
        key = self._active.key_of(event)
        if isinstance(event, StartEvent) and key is not None and self._is_new(key):
            if len(self._active) + len(self._arriving) >= self._active.capacity:
                return None
            newcomers.add(key)
            self._arriving.add(key)
        return EventRow(event, key)

    def _is_new(self, key: SandboxKey) -> bool:
        return self._active.get(key) is None and key not in self._arriving and self._done.get(key) is None

    def _is_done(self, row: EventRow) -> bool:
        """Whether the sandbox was finished while its event was on its way to the store."""
        return row.key is not None and self._done.get(row.key) is not None
