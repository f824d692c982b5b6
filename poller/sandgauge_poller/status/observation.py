"""What the poller's own metrics and its page look up: counts, intervals, requests, and what waits in the outbox."""

import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping

from sandgauge_poller.export import outbox
from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.self_metrics import OutboxState
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking.active_set import ActiveSet
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import SandboxState, Signal
from sandgauge_schemas.records import RequestRecord

logger = logging.getLogger(__name__)

_OWNED_STATES = tuple(state for state in SandboxState if state is not SandboxState.UNMATCHED)
_WITHOUT_DEPLOYMENT = ((None, SandboxState.UNMATCHED), (None, SandboxState.NOT_READ))


class Observation:
    """Snapshots for the thread that collects the metrics."""

    def __init__(
        self, active: ActiveSet, context: ReadingContext, database: Database, now_ns: Callable[[], int]
    ) -> None:
        self._active = active
        self._context = context
        self._database = database
        self._now_ns = now_ns

    def sandboxes(self) -> Mapping[tuple[str | None, SandboxState], int]:
        """Return how many sandboxes there are, by deployment and state.

        Where there are none it says 0: a series that only stopped would stay at its last value for minutes.
        """
        owned = [(name, state) for name in self._context.providers for state in _OWNED_STATES]
        counts: dict[tuple[str | None, SandboxState], int] = dict.fromkeys([*owned, *_WITHOUT_DEPLOYMENT], 0)
        counts.update(Counter((sandbox.deployment, self._context.state(sandbox)) for sandbox in self._active))
        return counts

    def leaks(self) -> Mapping[str, int]:
        """Return how many leaked sandboxes are alive, by deployment."""
        counts = dict.fromkeys(self._context.providers, 0)
        for sandbox in self._active:
            if sandbox.progress.leaked and sandbox.progress.end is None and sandbox.deployment in counts:
                counts[sandbox.deployment] += 1
        return counts

    def effective_intervals_s(self) -> Mapping[str, float]:
        """Return the interval that each deployment can carry, in seconds."""
        asked = self._context.settings.collection_interval
        return {name: asked * self._context.stretch(name) for name in self._context.providers}

    def requested(self, request_id: str) -> RequestRecord | None:
        """Return a logical request; None where its span has not come."""
        return self._database.read(lambda connection: store.find_request(connection, request_id))

    def outbox(self) -> Mapping[Signal, OutboxState]:
        """Return what waits of each signal; nothing while the store cannot be read."""
        now_ns = self._now_ns()
        try:
            accounts = self._database.read(outbox.accounts)
        except (sqlite3.Error, StateError) as error:
            logger.warning("what waits in the outbox is unknown: %s", error)
            return {}
        return {
            signal: OutboxState(
                size=account.pending_bytes,
                age_s=max(0.0, (now_ns - account.oldest_ns) / 1e9) if account.oldest_ns is not None else 0.0,
                items=account.outcomes,
            )
            for signal, account in accounts.items()
        }
