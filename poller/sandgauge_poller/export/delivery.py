"""Delivery of the outbox to the Collector: one thread, and for each signal its own next attempt."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sandgauge_poller.export import outbox
from sandgauge_poller.export.answer import Outcome, Verdict
from sandgauge_poller.export.collector_client import Post, send
from sandgauge_poller.export.lane import Lane
from sandgauge_poller.export.messages import export_request
from sandgauge_poller.export.outbox import Batch
from sandgauge_poller.tracking.database import Database
from sandgauge_schemas.names import ExportOutcome, Signal

MAX_REQUEST_BYTES = 1024 * 1024
MAX_REQUEST_ROWS = 2000
LINGER_S = 0.5
"""How long the first new row waits for company, so that a request holds many."""

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Times in seconds; a point older than `metrics_max_age_s` is left out."""

    timeout_s: float = 10.0
    initial_interval_s: float = 1.0
    max_interval_s: float = 30.0
    metrics_max_age_s: float = 900.0


class Delivery:
    """Sends what waits in the outbox until `stop`.

    Rows stay there until their request is delivered or refused for good, and each attempt takes them anew, so that
    whatever happened in between (rows dropped, points grown too old, kill -9) counts for the next one.
    `on_points_expired` gets the number of points that were left out for their age.
    """

    def __init__(  # noqa: PLR0913 - the clocks are passed in
        self,
        database: Database,
        post: Post,
        settings: DeliverySettings,
        on_points_expired: Callable[[int], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._database = database
        self._post = post
        self._settings = settings
        self._on_points_expired = on_points_expired
        self._monotonic = monotonic
        self._now_ns = now_ns
        self._lanes = [
            Lane(
                signal,
                initial_interval_s=settings.initial_interval_s,
                max_interval_s=settings.max_interval_s,
                monotonic=monotonic,
            )
            for signal in Signal
        ]
        self._wake = threading.Event()
        self._wake.set()  # rows of an earlier process may wait
        self._stopping = threading.Event()
        self._deadline_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="sandgauge-delivery", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def notify(self) -> None:
        """Say that rows were committed; from any thread."""
        self._wake.set()

    def stop(self, timeout_s: float) -> bool:
        """Send what can be sent within the time and end the thread; return whether it has ended.

        What is left stays in the outbox for the next start.
        """
        self._deadline_s = self._monotonic() + timeout_s
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def deliver_due(self) -> bool:
        """Send at most one request of each signal that is due; return whether more can be sent at once."""
        more = [self._deliver(lane) for lane in self._lanes if lane.due_s <= self._monotonic()]
        return any(more)

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._wake.wait(self._seconds_until_due()):
                self._stopping.wait(LINGER_S)
            self._wake.clear()
            while self.deliver_due() and not self._stopping.is_set():
                pass
        while self._timeout_s() > 0 and self.deliver_due():
            pass

    def _seconds_until_due(self) -> float | None:
        """Return the time until the first postponed attempt; None when none is postponed."""
        postponed = [lane.due_s - self._monotonic() for lane in self._lanes if lane.due_s]
        return max(0.0, min(postponed)) if postponed else None

    def _timeout_s(self) -> float:
        """Return how long a request may take; after `stop` no longer than what is left."""
        if self._deadline_s is None:
            return self._settings.timeout_s
        return min(self._settings.timeout_s, self._deadline_s - self._monotonic())

    def _deliver(self, lane: Lane) -> bool:
        """Send the lane's next request; whatever goes wrong, here or there, postpones the one after it."""
        try:
            batch = self._take(lane.signal)
            if not batch.payloads:
                return batch.more
            message, now_s = export_request(batch.payloads), self._now_ns() / _NS
            outcome = send(self._post, lane.signal, message, timeout_s=self._timeout_s(), now_s=now_s)
            if outcome.verdict is not Verdict.RETRY:
                self._settle(lane.signal, batch, outcome)
        except Exception as error:  # noqa: BLE001 - a full disk or a bug must not end the thread
            outcome = Outcome(verdict=Verdict.RETRY, detail=f"{type(error).__name__}: {error}")
        lane.note(outcome)
        return outcome.verdict is not Verdict.RETRY and batch.more

    def _take(self, signal: Signal) -> Batch:
        """Return the next rows that are young enough, and drop those that are not."""
        max_age_ns = int(self._settings.metrics_max_age_s * _NS)
        not_before_ns = self._now_ns() - max_age_ns if signal is Signal.METRICS else 0
        batch = self._database.read(
            lambda connection: outbox.take(
                connection,
                signal,
                max_bytes=MAX_REQUEST_BYTES,
                max_rows=MAX_REQUEST_ROWS,
                not_before_ns=not_before_ns,
            )
        )
        if batch.expired_seqs:
            expired = self._database.submit(
                lambda connection: outbox.remove(connection, signal, batch.expired_seqs, ExportOutcome.DROPPED)
            )
            self._on_points_expired(expired.result())
        return batch

    def _settle(self, signal: Signal, batch: Batch, outcome: Outcome) -> None:
        """Remove what was delivered or refused for good."""
        refused = outcome.verdict is Verdict.REJECTED
        counted = ExportOutcome.REJECTED if refused else ExportOutcome.DELIVERED
        self._database.submit(
            lambda connection: outbox.remove(connection, signal, batch.seqs, counted, rejected=outcome.rejected)
        ).result()
