"""The way of an event: into the store, then into the active set; its sender is answered in between."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sandgauge_poller.ingest.event_json import EventKind
from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError, StartEvent, StopEvent
from sandgauge_poller.tracking import elsewhere, progress_rows, store
from sandgauge_poller.tracking.active_set import ActiveSet, Change, ChangeKind, SandboxKey, Tracked
from sandgauge_poller.tracking.bounded import BoundedDict
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.ownership import Owns, owns_all
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.store import EventRow
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import SpanOutcome
from sandgauge_schemas.wording import number_of

logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")

_AT_ONCE = 250
"""Events that are looked at, or folded in, before the loop goes on with its readings: a few milliseconds."""

_RECENTLY_DONE = 10_000
"""Sandboxes remembered in memory as done with; the store remembers them longer."""


@dataclass(slots=True)
class _Admission:
    """What is made of the events of one commit: rows (None: refused), who is new, and who made room for them."""

    rows: list[EventRow | None] = field(default_factory=list)
    newcomers: set[SandboxKey] = field(default_factory=set)
    displaced: list[Tracked] = field(default_factory=list)


class Tracker:
    """Commit events, fold in those that are about sandboxes of its own, and tell `on_change` what they changed.

    The events of other sandboxes are kept in the store alone, for the day on which it becomes their owner.
    """

    def __init__(
        self,
        database: Database,
        active: ActiveSet,
        on_change: Callable[[Change], None],
        owns: Owns = owns_all,
    ) -> None:
        self._database = database
        self._active = active
        self._on_change = on_change
        self._owns = owns
        self._done: BoundedDict[SandboxKey, bool] = BoundedDict(_RECENTLY_DONE)
        self._arriving: set[SandboxKey] = set()
        """Sandboxes whose first start is on its way through the store: they fill the capacity already."""

    async def restore(self) -> int:
        """Fold the stored events again and return how many sandboxes are back, or are newly this poller's."""
        events, progress, followed = await self._database.write(
            lambda connection: (
                store.load_events(connection, self._active.key_of),
                progress_rows.load_all(connection),
                elsewhere.followed(connection),
            )
        )
        async for part in _in_turns(events):
            for event in part:
                key = self._active.key_of(event)
                if key is None or key in followed or self._owns(key.sandbox_id):
                    self._active.apply(event)
        for sandbox in self._active:
            sandbox.progress = progress.get(sandbox.key, sandbox.progress)
        await self._settle(followed)
        async for restored in _in_turns(list(self._active)):
            for sandbox in restored:
                self._on_change(Change(ChangeKind.RESTORED, sandbox))
        return len(self._active)

    async def _settle(self, followed: set[SandboxKey]) -> None:
        """Keep what is this poller's own, which since it last ran may be others: what is over stays where it was."""
        taken: dict[SandboxKey, Progress] = {}
        left, over = [], []
        for sandbox in self._active:
            key, stop = sandbox.key, sandbox.lifecycle.stop
            is_over = stop is not None or sandbox.progress.end is not None
            if key in followed if is_over else self._owns(key.sandbox_id):
                if key not in followed:
                    taken[key] = sandbox.progress = Progress(inherited=True)
                continue
            self._active.discard(sandbox)
            if stop is None:
                left.append(key)
            else:
                over.append((key, stop.received_ns))

        def write(connection: sqlite3.Connection) -> None:
            elsewhere.follow(connection, taken, 0)
            elsewhere.let_go(connection, left)
            for key, stopped_ns in over:
                elsewhere.end(connection, key, stopped_ns)

        if taken or left or over:
            await self._database.write(write)
            logger.info("sandboxes newly this poller's: %d; no longer: %d", len(taken), len(left))

    async def commit(self, events: Sequence[LifecycleEvent]) -> list[SpanOutcome]:
        """Store events, fold in what is news, and say what became of each; returns only after the commit.

        Raises:
            NotStoredError: the disk cannot take them.

        """
        admission = _Admission()
        try:
            async for part in _in_turns(events):
                admission.rows += [self._admit(event, admission) for event in part]
            news = await self._store(admission)
            return await self._fold_all(admission.rows, iter(news))
        except StateError as error:
            raise NotStoredError(str(error)) from error
        finally:
            self._arriving -= admission.newcomers

    async def _store(self, admission: "_Admission") -> list[bool]:
        rows = [row for row in admission.rows if row is not None]
        displaced = [sandbox.key for sandbox in admission.displaced]

        def write(connection: sqlite3.Connection) -> list[bool]:
            if displaced:
                store.forget(connection, displaced)
            return _insert(connection, rows)

        try:
            news = await self._database.write(write)
        except Exception:
            for sandbox in admission.displaced:
                self._active.put_back(sandbox)
                self._on_change(Change(ChangeKind.RESTORED, sandbox))
            raise
        if displaced:
            logger.warning(
                "%s of which nothing was ever seen made room for newer ones, for as many are known as"
                " tracking.max_sandboxes allows (%d)",
                number_of(len(displaced), "sandbox"),
                self._active.capacity,
            )
        return news

    async def _fold_all(self, rows: Sequence[EventRow | None], news: Iterator[bool]) -> list[SpanOutcome]:
        outcomes: list[SpanOutcome] = []
        async for part in _in_turns(rows):
            outcomes += [SpanOutcome.REJECTED if row is None else self._fold(row, is_news=next(news)) for row in part]
        return outcomes

    def _fold(self, row: EventRow, *, is_news: bool) -> SpanOutcome:
        if not is_news or self._is_done(row):
            return SpanOutcome.REPEATED
        if not row.is_elsewhere:
            for change in self._active.apply(row.event):
                self._on_change(change)
        return SpanOutcome.ACCEPTED

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

        def write(connection: sqlite3.Connection) -> None:
            elsewhere.forget(connection, before_ns)
            store.prune(connection, before_ns, most_rows, needed | elsewhere.needed(connection))
            progress_rows.prune(connection)

        await self._database.write(write)

    def _admit(self, event: LifecycleEvent, admission: "_Admission") -> EventRow | None:
        """Return the row to store; None for the start of a sandbox for which nobody makes room."""
        key = self._active.key_of(event)
        if key is not None and not self._owns(key.sandbox_id) and self._active.get(key) is None:
            return EventRow(event, key, is_elsewhere=True)
        if isinstance(event, StartEvent) and key is not None and self._is_new(key):
            if len(self._active) + len(self._arriving) >= self._active.capacity:
                displaced = self._active.make_room(event)
                if displaced is None:
                    return None
                admission.displaced.append(displaced)
                self._on_change(Change(ChangeKind.DISPLACED, displaced))
            admission.newcomers.add(key)
            self._arriving.add(key)
        return EventRow(event, key)

    def _is_new(self, key: SandboxKey) -> bool:
        return self._active.get(key) is None and key not in self._arriving and self._done.get(key) is None

    def _is_done(self, row: EventRow) -> bool:
        """Whether the sandbox was finished while its event was on its way to the store."""
        return row.key is not None and self._done.get(row.key) is not None


async def _in_turns(items: Sequence[_Item]) -> AsyncIterator[Sequence[_Item]]:
    """Yield a few items at a time, and let readings go on in between."""
    for at in range(0, len(items), _AT_ONCE):
        if at:
            await asyncio.sleep(0)
        yield items[at : at + _AT_ONCE]


def _insert(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> list[bool]:
    """Store events and return which were news; of a sandbox that stopped elsewhere nothing more is needed."""
    news = store.insert_events(connection, rows)
    for row in rows:
        if row.is_elsewhere and row.key is not None and isinstance(row.event, StopEvent) and not row.event.failed:
            elsewhere.end(connection, row.key, row.event.received_ns)
    return news
