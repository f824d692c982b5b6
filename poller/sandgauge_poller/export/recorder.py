"""Readings in, records out: each with the progress it changes in one transaction, so that a restart knows both."""

import asyncio
import logging
import sqlite3
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sandgauge_poller.export import outbox, recording
from sandgauge_poller.export.batches import Batches
from sandgauge_poller.export.outbox import OutboxItem
from sandgauge_poller.export.sandbox_encoding import PointSettings, SandboxEncoding, encoding_of
from sandgauge_poller.export.series import Points, close_series, points_item
from sandgauge_poller.export.usage import last_kills, record_usage, take_kills
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.provider import AllocationReading, SampleReading, Usage
from sandgauge_poller.reading.scope import HostTotals, Observation, decide_scopes, is_undecided, memory_limit_mib
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_poller.tracking import progress_rows, store
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.progress import dump_progress
from sandgauge_poller.tracking.progress_rows import ProgressRow
from sandgauge_poller.tracking.tally import beyond_tally, dump_tally
from sandgauge_schemas.names import DesignatorKind, LeftOutReason, ResourceSource, Signal
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import Allocation

logger = logging.getLogger(__name__)


KnownKills = Callable[[Tracked], tuple[ResourceSource, Kills] | None]
"""Gives what a usage source knows by now of a sandbox's kills, and which source."""


@dataclass(slots=True)
class _Kept:
    """Of one sandbox: how its records begin, and what of its progress is stored beyond its tally."""

    encoding: SandboxEncoding
    stored: tuple[object, ...] | None = None


class Recorder:
    """The reading loop's sink; `wake` tells the delivery that rows wait.

    `known_kills`: what a usage source knows by now of a sandbox's kills, and which.
    """

    def __init__(  # noqa: PLR0913  # its collaborators and its clock are passed in
        self,
        database: Database,
        settings: PointSettings,
        *,
        max_outbox_bytes: int,
        clock: Clock,
        metrics: SelfMetrics,
        wake: Callable[[], None],
        known_kills: KnownKills = lambda _: None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._max_outbox_bytes = max_outbox_bytes
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._known_kills = known_kills
        self._host_totals = HostTotals()
        self._batches = Batches(self._submit, database.hurry)
        self._lost: Counter[Signal] = Counter()
        """Spans and points that the disk could not take, and that are not yet in the account."""

    async def allocation(self, sandbox: Tracked, reading: AllocationReading) -> None:
        """Record an allocation if it changed."""
        progress = sandbox.progress
        said = progress.allocation_status, progress.recorded_allocation
        item = recording.record_allocation(sandbox, self._kept(sandbox).encoding, reading)
        if item is None:
            return
        try:
            await self._commit(sandbox, [item])
        except BaseException:
            progress.allocation_status, progress.recorded_allocation = said  # still news, when it is read again
            raise

    async def sample(self, sandbox: Tracked, reading: SampleReading, missed: int, *, is_final: bool) -> None:
        """Record one reading: its span, its points, and what it adds to the sandbox's progress."""
        if reading.usage is not None:
            self._decide_scopes(sandbox, reading, reading.usage)
        encoding = self._kept(sandbox).encoding
        items = [recording.record_sample(sandbox, encoding, reading, missed, is_final=is_final)]
        items += self._points(sandbox, recording.sample_points(sandbox, encoding, reading))
        # Whoever is about to delete the sandbox waits for its last reading.
        await self._commit_or_count(sandbox, items, urgent=is_final)

    async def usage(self, sandbox: Tracked, answer: UsageAnswer, kills: Kills | None, missed: int) -> None:
        """Record one answer of a usage source, unless it says nothing new; the same of kills."""
        is_news = kills is not None and take_kills(sandbox.progress, answer.source, kills)
        recorded = record_usage(sandbox, self._kept(sandbox).encoding, answer, missed)
        self._kept(sandbox).stored = None  # what a source told is beyond the tally
        if recorded is not None:
            await self._commit_or_count(sandbox, [recorded.span, *self._points(sandbox, recorded.points)])
        elif is_news:
            await self._commit(sandbox, [])

    async def ended(self, sandbox: Tracked) -> None:
        """Close the series of a sandbox that is read no more, and keep its end where it has one."""
        self._host_totals.forget(sandbox.key)
        self._take_last_kills(sandbox)
        live, now_ns = sandbox.progress.series, self._clock.now_ns()
        item = points_item((*last_kills(sandbox.progress, now_ns), *close_series(sandbox.progress, now_ns)))
        try:
            await self._commit(sandbox, [item] if item is not None else [])
        except BaseException:
            sandbox.progress.series = live  # still to be closed, when it is tried again
            raise

    async def summary(self, sandbox: Tracked) -> None:
        """Record how the sandbox lived and ended, with what was requested looked up in the store."""
        request_id, progress = sandbox.keys.request_id, sandbox.progress
        request = None
        if request_id is not None:
            request = await self._database.write(lambda connection: store.find_request(connection, request_id))
        if progress.end is None:
            return  # it turned out to be alive meanwhile
        self._take_last_kills(sandbox)
        item = recording.record_summary(sandbox, self._kept(sandbox).encoding, request)
        progress.summarised = True
        try:
            await self._commit(sandbox, [item] if item is not None else [])
        except BaseException:
            progress.summarised = False
            raise

    async def changed(self, sandbox: Tracked) -> None:
        """Keep progress that no record carries."""
        await self._commit(sandbox, [])

    def let_go(self, sandbox: Tracked) -> None:
        """Compare a sandbox with its neighbours no more: another poller reads it from now on."""
        self._host_totals.forget(sandbox.key)

    def _take_last_kills(self, sandbox: Tracked) -> None:
        """Take what is known of kills since the last reading: one of them may well be why the sandbox ended."""
        known = self._known_kills(sandbox)
        if known is not None:
            take_kills(sandbox.progress, *known)

    def _decide_scopes(self, sandbox: Tracked, reading: SampleReading, usage: Usage) -> None:
        """Say whose machine the reading describes, from its limit and from what its neighbours show."""
        progress = sandbox.progress
        progress.cpu_zeros = progress.cpu_zeros + 1 if usage.cpu_used_percentage == 0 else 0
        limit = memory_limit_mib(progress.allocation.components) if progress.allocation else None
        host = _host(progress.recorded_allocation)
        if progress.end is None:  # else it is no neighbour any more, and nobody would take it out again
            self._host_totals.observe(sandbox.key, host, limit_mib=limit, total_mib=usage.memory_total_mib)
        if progress.cpu is not None and progress.cpu is progress.memory and not is_undecided(progress.memory):
            return  # decided, and CPU with memory
        observation = Observation(
            source=reading.source,
            memory_limit_mib=limit,
            memory_total_mib=usage.memory_total_mib,
            cpu_zeros=progress.cpu_zeros,
            shared_total=is_undecided(progress.memory) and self._host_totals.shared(sandbox.key),
        )
        scopes = decide_scopes(observation, progress.memory)
        if scopes.memory != progress.memory:
            progress.memory = scopes.memory
        if scopes.cpu != progress.cpu:
            progress.cpu = scopes.cpu

    def _points(self, sandbox: Tracked, points: Points) -> list[OutboxItem]:
        """Return the points' row, if there is one, and count those that are not as they came."""
        if points.left_out:
            self._metrics.points_left_out(LeftOutReason.ORDER, points.left_out)
        if points.restamped:
            self._metrics.points_restamped(sandbox.key.owner, points.restamped)
        item = points_item(points.points)
        return [] if item is None else [item]

    async def _commit_or_count(self, sandbox: Tracked, items: Sequence[OutboxItem], *, urgent: bool = False) -> None:
        """Commit a reading; one that cannot be stored, for whatever reason, is accounted for later."""
        try:
            await self._commit(sandbox, items, urgent=urgent)
        except Exception:
            for item in items:
                self._lost[item.signal] += item.items
            raise

    async def _commit(self, sandbox: Tracked, items: Sequence[OutboxItem], *, urgent: bool = False) -> None:
        try:
            await self._batches.commit(sandbox.key, partial(self._row, sandbox), items, urgent=urgent)
        except BaseException:
            self._kept(sandbox).stored = None
            raise

    def _row(self, sandbox: Tracked) -> ProgressRow:
        """Return what is to be stored of a sandbox: all of it only where more than its tally changed."""
        kept, progress = self._kept(sandbox), sandbox.progress
        beyond = beyond_tally(progress)
        whole = None if kept.stored == beyond else dump_progress(progress)
        kept.stored = beyond
        return ProgressRow(sandbox.key, sandbox.phase, dump_tally(progress), whole)

    def _submit(self, items: Sequence[OutboxItem], rows: Sequence[ProgressRow], *, urgent: bool) -> Future[int]:
        """Have a batch written in one transaction, and with it what was lost before."""
        lost, self._lost = self._lost, Counter()
        now_ns = self._clock.now_ns()

        def write(connection: sqlite3.Connection) -> int:
            outbox.count_lost(connection, lost)
            outbox.append(connection, items)
            progress_rows.save(connection, rows, now_ns)
            return sum(outbox.enforce(connection, self._max_outbox_bytes).values())

        try:
            # A record can wait a moment for others to share its commit: it is sent in batches anyway.
            writing = asyncio.wrap_future(self._database.submit(write, patient=not urgent))
        except BaseException:
            self._lost += lost
            raise
        writing.add_done_callback(partial(self._written, lost))
        return writing

    def _written(self, lost: Counter[Signal], writing: Future[int]) -> None:
        if writing.cancelled() or writing.exception() is not None:
            self._lost += lost
            return
        if lost:
            logger.warning("%d spans and points of readings are lost: they could not be stored when made", lost.total())
        if writing.result():
            logger.warning("the outbox is full, records are dropped: is the Collector at export.endpoint up?")
        self._wake()

    def _kept(self, sandbox: Tracked) -> _Kept:
        kept = sandbox.kept
        if not isinstance(kept, _Kept) or kept.encoding.keys is not sandbox.keys:
            stored = kept.stored if isinstance(kept, _Kept) else None
            kept = sandbox.kept = _Kept(encoding_of(sandbox, self._settings), stored)
        return kept


def _host(allocation: Allocation | None) -> Identity | str | None:
    """Return what sandboxes on one machine have in common; a control plane on Docker is that of one daemon."""
    if allocation is None:
        return None
    designator = allocation.designator
    if allocation.host is None and designator is not None and designator.kind == DesignatorKind.DOCKER_CONTAINER:
        return designator.scope
    return allocation.host
