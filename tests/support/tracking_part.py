"""The tracking part of a poller: a store in a folder, and the active set that stands while its context is open."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sandgauge_poller.tracking import progress_rows
from sandgauge_poller.tracking.active_set import ActiveSet, Change, SandboxKey, Tracked
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.ownership import Owns, owns_all
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.routing import Routing
from sandgauge_poller.tracking.tracker import Tracker


class TrackingPart:
    """Notes every change; `owner` is what `sandbox` and `save` take a sandbox id to be of."""

    def __init__(self, folder: Path, routing: Routing, owner: str, *, capacity: int, owns: Owns) -> None:
        self.database = Database(folder)
        self.active = ActiveSet(routing, capacity)
        self.changes: list[Change] = []
        self.tracker = Tracker(self.database, self.active, self.changes.append, owns)
        self._owner = owner

    @property
    def ids(self):
        return {sandbox.key.sandbox_id for sandbox in self.active}

    @property
    def state(self):
        return {s.key: (s.deployment, s.lifecycle, s.rollout, s.progress) for s in self.active}

    @property
    def kinds(self):
        return [change.kind for change in self.changes]

    def sandbox(self, sandbox_id: str = "s", owner: str | None = None) -> Tracked | None:
        return self.active.get(SandboxKey(owner or self._owner, sandbox_id))

    async def save(self, sandbox_id: str, progress: Progress) -> None:
        key = SandboxKey(self._owner, sandbox_id)
        await self.database.write(lambda connection: save_progress(connection, key, progress, 3))


@asynccontextmanager
async def tracking(
    folder: Path, routing: Routing, owner: str, *, capacity: int = 100, owns: Owns = owns_all
) -> AsyncIterator[TrackingPart]:
    part = TrackingPart(folder, routing, owner, capacity=capacity, owns=owns)
    try:
        await part.tracker.restore()
        yield part
    finally:
        assert part.database.close(60)


def save_progress(connection: sqlite3.Connection, key: SandboxKey, progress: Progress, now_ns: int) -> None:
    progress_rows.save(connection, [progress_rows.whole_row(key, progress)], now_ns)
