"""Sandboxes that come from another poller and go to another, with what was seen of them."""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence

from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError, StartEvent
from sandgauge_poller.tracking import elsewhere, store
from sandgauge_poller.tracking.active_set import ActiveSet, Change, ChangeKind, SandboxKey, Tracked
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.elsewhere import Seen
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.store import EventRow
from sandgauge_poller.tracking.store_file import StateError


class Succession:
    """Take sandboxes over and let go of them; `on_change` hears of those that are new here."""

    def __init__(self, database: Database, active: ActiveSet, on_change: Callable[[Change], None]) -> None:
        self._database = database
        self._active = active
        self._on_change = on_change

    async def begin(self) -> None:
        """Follow nothing yet, but know the rollouts: whose the sandboxes of the last time are is to be told."""

        def read(connection: sqlite3.Connection) -> list[LifecycleEvent]:
            elsewhere.leave(connection, elsewhere.followed(connection))
            return store.load_events(connection, self._active.key_of)

        for event in await self._database.write(read):
            if self._active.key_of(event) is None:
                self._active.apply(event)

    async def take_over(
        self,
        events: Sequence[LifecycleEvent],
        seen: Mapping[SandboxKey, Seen],
        done: Mapping[SandboxKey, int],
        now_ns: int,
    ) -> int:
        """Follow the sandboxes of these events that are not done with; return how many the capacity leaves out.

        Where this poller itself has seen a sandbox later than another, that counts. `done` says since when.

        Raises:
            NotStoredError: the disk cannot take them.

        """
        rows = [EventRow(event, self._active.key_of(event), is_elsewhere=True) for event in events]
        keys = {row.key: None for row in rows if row.key is not None and isinstance(row.event, StartEvent)}

        def write(connection: sqlite3.Connection) -> dict[SandboxKey, Progress]:
            for key, at_ns in done.items():
                store.finish(connection, key, at_ns)
            store.insert_events(connection, rows)
            found = elsewhere.newest(connection, keys, seen)
            taken = dict(list(found.items())[:room])
            elsewhere.follow(connection, taken, now_ns)
            left_out.extend(found.keys() - taken.keys())
            return taken

        room, left_out = max(0, self._active.capacity - len(self._active)), list[SandboxKey]()
        try:
            taken = await self._database.write(write)
        except StateError as error:
            raise NotStoredError(str(error)) from error
        for row in rows:
            if row.key in taken or row.key not in keys:
                self._active.apply(row.event)
        for key, progress in taken.items():
            sandbox = self._active.get(key)
            if sandbox is not None:
                sandbox.progress = progress
                self._on_change(Change(ChangeKind.RESTORED, sandbox))
        return len(left_out)

    async def let_go(self, sandboxes: Collection[Tracked]) -> None:
        """Follow sandboxes no more; what was seen of them stays, for the case that nobody has taken it up."""
        for sandbox in sandboxes:
            self._active.discard(sandbox)
        keys = [sandbox.key for sandbox in sandboxes]
        try:
            await self._database.write(lambda connection: elsewhere.leave(connection, keys))
        except StateError:  # of which the store itself tells the log; at worst they are remembered for longer
            return
