"""What the parts of the reading loop share: settings, clock, providers and where records go."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.newcomers import Newcomers
from sandgauge_poller.reading.provider import AllocationReading, Provider, SampleReading
from sandgauge_poller.reading.schedule import WHILE_ALIVE, Load, Pacer, Schedule
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.routing import RouteOutcome
from sandgauge_schemas.names import EndReason, SandboxState

logger = logging.getLogger(__name__)

PAUSED_SHARE = 0.2
"""Part of a control plane's rate that questions about paused sandboxes may take."""

SECONDS_A_READ = 1.1
"""How long one execd reading holds a slot: the daemon itself waits 1.0 s (measured 1.005 to 1.10 s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingSettings:
    """Intervals and delays in seconds; `collection_interval` 0 means that nothing is read."""

    collection_interval: float
    min_interval: float
    initial_delay: float
    collection_jitter: float
    refresh_interval: float
    orphan_grace: float
    summary_delay: float


class RecordSink(Protocol):
    """Where readings become records; each call returns once its records are committed."""

    async def allocation(self, sandbox: Tracked, reading: AllocationReading) -> None:
        """Record an allocation if it changed."""

    async def sample(self, sandbox: Tracked, reading: SampleReading, missed: int, *, is_final: bool) -> None:
        """Record one reading, how many due readings it leaves missed, and whether it is the one before deletion."""

    async def ended(self, sandbox: Tracked) -> None:
        """Close the series of a sandbox that is read no more, and keep its end where it has one."""

    async def summary(self, sandbox: Tracked) -> None:
        """Record how the sandbox lived and ended, and mark it as summarised once that is kept."""

    async def changed(self, sandbox: Tracked) -> None:
        """Keep progress that no record carries."""


@dataclass(frozen=True, slots=True)
class Over:
    """What the control plane said of a container that is over, when it first did (ns since the epoch)."""

    reason: EndReason
    at_ns: int
    oom_killed: bool | None


@dataclass(slots=True)
class Pace:
    """Of one sandbox, while it is read: failures in a row, and when it was or is asked what (monotonic seconds)."""

    failures: int = 0
    allocation_failures: int = 0
    next_due: float | None = None
    """When the next reading is due, whenever it is tried; None before the first, which waits its turn."""
    unread: int = 0
    """Readings that were due while no poller ran, until they are counted."""
    last_status: float = float("-inf")
    taken_up: float = float("-inf")
    """When it was asked at once since its control plane spoke again; an answer of its own wipes that out."""
    last_alive_ns: int = 0
    """When the control plane was last asked and still had it, ns since the epoch."""
    over: Over | None = None
    """That its container is over, until it is told again or turns out otherwise."""
    is_reading: bool = False
    """Whether a reading is on its way."""
    final: asyncio.Future[FinalReading] | None = None
    """Set once the sandbox is about to be deleted, and done with its last reading: no other is planned meanwhile."""
    resumed_ns: int = 0
    """When it was read on since it was not deleted after all, ns since the epoch."""


@dataclass(slots=True, kw_only=True)
class ReadingContext:
    """Shared by the loop's parts; one for each poller."""

    settings: ReadingSettings
    clock: Clock
    providers: Mapping[str, Provider]
    sink: RecordSink
    metrics: SelfMetrics
    schedule: Schedule = field(default_factory=Schedule)
    finish: Callable[[Tracked], Awaitable[None]]
    first_reads: Mapping[str, Pacer]
    without_execd: frozenset[str] = frozenset()
    """Deployments whose sandboxes' daemons are not read."""
    newcomers: dict[str, Newcomers] = field(default_factory=lambda: defaultdict(Newcomers))
    """Who waits for a first reading, by deployment."""
    loads: dict[str, Load] = field(default_factory=dict)
    """What each deployment's slots must carry."""
    paused: dict[str, Load] = field(default_factory=dict)
    """What each deployment's control plane is asked about paused sandboxes."""
    paces: dict[SandboxKey, Pace] = field(default_factory=dict)
    _overloaded: set[str] = field(default_factory=set)

    def provider(self, sandbox: Tracked) -> Provider:
        """Return the provider of a sandbox that is read."""
        return self.providers[sandbox.deployment or ""]

    def pace(self, sandbox: Tracked) -> Pace:
        """Return the sandbox's pace, begun when first asked for."""
        pace = self.paces.get(sandbox.key)
        if pace is None:
            pace = self.paces[sandbox.key] = Pace()
        return pace

    def is_read(self, sandbox: Tracked) -> bool:
        """Whether this sandbox is to be read at all: a deployment takes it and no interval says 0."""
        start = sandbox.lifecycle.start
        return (
            start is not None
            and sandbox.outcome is RouteOutcome.MATCHED
            and sandbox.deployment in self.providers
            and self.settings.collection_interval > 0
            and start.record.sample_interval_s != 0
        )

    def reads_execd(self, sandbox: Tracked) -> bool:
        """Whether the daemon inside the sandbox is read."""
        return sandbox.deployment not in self.without_execd

    def state(self, sandbox: Tracked) -> SandboxState:
        """Return how the poller treats the sandbox at present."""
        if sandbox.progress.end is not None:
            return SandboxState.ENDING
        if sandbox.outcome is RouteOutcome.UNMATCHED:
            return SandboxState.UNMATCHED
        if not self.is_read(sandbox):
            return SandboxState.NOT_READ
        return SandboxState.PAUSED if sandbox.progress.paused else SandboxState.ACTIVE

    def join(self, sandbox: Tracked) -> None:
        """Count a sandbox that has answered among those that are read; say once where they are too many."""
        deployment = sandbox.deployment or ""
        self.newcomers[deployment].vouch(sandbox)
        load = self.loads.setdefault(deployment, Load())
        load.add(sandbox.key, self._asked(sandbox))
        if self.stretch(deployment) > 1 and deployment not in self._overloaded:
            self._overloaded.add(deployment)
            logger.warning(
                "deployment %s: %d sandboxes are more than its %s proxied reads at once carry, so each is read less"
                " often; raise max_concurrent_proxied_reads, or let them be reached directly (allowed_endpoint_hosts)",
                deployment,
                len(load),
                self.providers[deployment].read_slots(),
            )

    def leave(self, sandbox: Tracked) -> None:
        """Plan no reading of a sandbox that is read no more, and count it no longer."""
        for loads in (self.loads, self.paused):
            load = loads.get(sandbox.deployment or "")
            if load is not None:
                load.remove(sandbox.key)
        self.newcomers[sandbox.deployment or ""].forget(sandbox)
        self.schedule.drop(sandbox.key, *WHILE_ALIVE)
        provider = self.providers.get(sandbox.deployment or "")
        if provider is not None:  # its deployment may be configured no more
            provider.forget(sandbox.key.sandbox_id)

    def set_paused(self, sandbox: Tracked, *, paused: bool) -> None:
        """Remember whether a sandbox is paused, and count it among those that are."""
        sandbox.progress.paused = paused
        load = self.paused.setdefault(sandbox.deployment or "", Load())
        if paused:
            load.add(sandbox.key, self._asked(sandbox))
        else:
            load.remove(sandbox.key)

    def interval(self, sandbox: Tracked) -> float:
        """Return the interval at which the sandbox is read now, in seconds."""
        return self._asked(sandbox) * self.stretch(sandbox.deployment or "")

    def stretch(self, deployment: str) -> float:
        """Return by how much the deployment's intervals are stretched, 1 where its slots carry its sandboxes."""
        slots, load = self.providers[deployment].read_slots(), self.loads.get(deployment)
        if not slots or load is None or deployment in self.without_execd:
            return 1.0
        return max(1.0, load.reads_per_second * SECONDS_A_READ / slots)

    def paused_stretch(self, deployment: str) -> float:
        """Return by how much the intervals of paused sandboxes are stretched, 1 where their share of the rate does."""
        load = self.paused.get(deployment)
        share = PAUSED_SHARE * self.first_reads[deployment].rate
        return 1.0 if load is None else max(1.0, load.reads_per_second / share)

    def _asked(self, sandbox: Tracked) -> float:
        """Return the interval that was asked for: the run's own hint, not below the least, else the configured one."""
        start = sandbox.lifecycle.start
        hint = start.record.sample_interval_s if start is not None else None
        return self.settings.collection_interval if hint is None else max(hint, self.settings.min_interval)
