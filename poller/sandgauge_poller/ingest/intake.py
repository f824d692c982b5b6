"""One body of spans: understood, committed and counted, whichever way it came."""

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError
from sandgauge_poller.ingest.quarantine import Quarantine
from sandgauge_poller.ingest.spans import UndecodableError
from sandgauge_poller.ingest.understanding import Understood, understand
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_schemas.names import ConflictKind, SpanOutcome, SpanReason

SMALL = 64 * 1024
"""A body of so many bytes is understood at once; a larger one by a thread, one at a time, since it takes long."""

EVENTS_AT_ONCE = 2500
"""Events of one commit: the more, the fewer pages are written twice, and the longer all else waits for it."""

CommitEvents = Callable[[Sequence[LifecycleEvent]], Awaitable[Sequence[SpanOutcome]]]
"""Commit events and say of each, in their order: accepted, repeated, or rejected because the capacity is reached."""


class Intake:
    """Take bodies in; each is done with once `commit` has returned for all its events."""

    def __init__(
        self, commit: CommitEvents, metrics: SelfMetrics, quarantine: Quarantine, now_ns: Callable[[], int]
    ) -> None:
        self._commit = commit
        self._metrics = metrics
        self._quarantine = quarantine
        self._now_ns = now_ns
        self._large = asyncio.Lock()

    async def take(self, content_type: str, body: bytes) -> Counter[SpanReason | None]:
        """Return how many of its spans cannot be taken, by reason; a body that is set aside has none.

        Raises:
            UndecodableError: it is no trace request; this is counted.
            NotStoredError: its events cannot be stored just now.
            Exception: whatever else goes wrong may be over when the body comes again.

        """
        try:
            return (await self._understand_and_commit(content_type, body)).rejected
        except UndecodableError as error:
            self._metrics.spans(SpanOutcome.REJECTED, error.reason, 1)
            raise
        except (NotStoredError, sqlite3.Error, OSError):  # the store is in trouble, whatever the body
            raise
        except Exception as error:
            if not await self._quarantine.takes(content_type, body, error):
                raise
            self._metrics.spans(SpanOutcome.QUARANTINED, SpanReason.UNFORESEEN_ERROR, 1)
            return Counter()

    async def _understand_and_commit(self, content_type: str, body: bytes) -> Understood:
        if len(body) <= SMALL:
            understood = understand(content_type, body, self._now_ns())
            await self._commit_events(understood)
            return understood
        async with self._large:
            understood = await self._understand_beside(content_type, body)
            await self._commit_events(understood)
            return understood

    async def _understand_beside(self, content_type: str, body: bytes) -> Understood:
        """Understand a body in a thread, which ends soon after the wait for it: the end of a process waits for it."""
        abandoned = threading.Event()
        try:
            return await asyncio.to_thread(
                understand, content_type, body, self._now_ns(), lambda: not abandoned.is_set()
            )
        finally:
            abandoned.set()

    async def _commit_events(self, understood: Understood) -> None:
        counts = understood.others.copy()
        for at in range(0, len(understood.events), EVENTS_AT_ONCE):
            part = understood.events[at : at + EVENTS_AT_ONCE]
            outcomes = await self._commit([event for event, _ in part])
            for (_, reason), outcome in zip(part, outcomes, strict=True):
                counts[outcome, SpanReason.CAPACITY if outcome is SpanOutcome.REJECTED else reason] += 1
        for (outcome, reason), count in counts.items():
            self._metrics.spans(outcome, reason, count)
        for _ in range(understood.contradictory):
            self._metrics.conflict(ConflictKind.ATTRIBUTE)
