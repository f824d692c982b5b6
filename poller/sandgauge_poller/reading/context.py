"""What the parts of the reading loop share: settings, clock, providers and where records go."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.provider import AllocationReading, Provider, SampleReading
from sandgauge_poller.reading.schedule import Pacer, Schedule
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.routing import RouteOutcome
from sandgauge_schemas.names import SandboxState

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

    async def sample(self, sandbox: Tracked, reading: SampleReading, missed: int) -> None:
        """Record one reading, and how many due readings it leaves missed."""

    async def ended(self, sandbox: Tracked) -> None:
        """Close the sandbox's series and keep its end."""

    async def summary(self, sandbox: Tracked) -> None:
        """Record how the sandbox lived and ended."""

    async def changed(self, sandbox: Tracked) -> None:
        """Keep progress that no record carries."""


@dataclass(slots=True)
class Pace:
    """Of one sandbox, while it is read: failures in a row, and when it was last asked what (monotonic seconds)."""

    failures: int = 0
    allocation_failures: int = 0
    last_due: float | None = None
    last_status: float = float("-inf")


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
    live: dict[str, set[SandboxKey]] = field(default_factory=dict)
    """Sandboxes being read, by deployment: what its slots must carry."""
    paces: dict[SandboxKey, Pace] = field(default_factory=dict)

    def provider(self, sandbox: Tracked) -> Provider:
        """Return the provider of a sandbox that is read."""
        return self.providers[sandbox.deployment or ""]

    def pace(self, sandbox: Tracked) -> Pace:
        """Return the sandbox's pace, begun when first asked for."""
        return self.paces.setdefault(sandbox.key, Pace())

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

    def state(self, sandbox: Tracked) -> SandboxState:
        """Return how the poller treats the sandbox at present."""
        if sandbox.progress.end is not None:
            return SandboxState.ENDING
        if sandbox.outcome is RouteOutcome.UNMATCHED:
            return SandboxState.UNMATCHED
        if not self.is_read(sandbox):
            return SandboxState.NOT_READ
        return SandboxState.PAUSED if sandbox.paused else SandboxState.ACTIVE

    def interval(self, sandbox: Tracked) -> float:
        """Return the interval at which the sandbox is read now, in seconds; a hint is clamped to the least."""
        start = sandbox.lifecycle.start
        hint = start.record.sample_interval_s if start is not None else None
        asked = self.settings.collection_interval if hint is None else max(hint, self.settings.min_interval)
        return asked * self.stretch(sandbox.deployment or "")

    def stretch(self, deployment: str) -> float:
        """Return by how much the deployment's intervals are stretched, 1 where its slots carry its sandboxes."""
        slots = self.providers[deployment].read_slots()
        needed = len(self.live.get(deployment, ())) * SECONDS_A_READ
        available = self.settings.collection_interval * slots if slots is not None else needed
        return max(1.0, needed / available) if available else 1.0
