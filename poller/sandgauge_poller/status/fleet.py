"""The sandboxes as people look at them: how each stands, and which of them somebody asked for."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.tracking import sender_clock
from sandgauge_poller.tracking.active_set import ActiveSet, Tracked
from sandgauge_schemas.names import ResourceSource, SandboxState


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one sandbox stands at `now_ns`, ns since the epoch; each None where it does not apply.

    `interval_s`: seconds from one reading to the next, as they can be carried at present.
    `lateness_s`: by how many seconds more than that the last good reading is past.
    """

    now_ns: int
    state: SandboxState
    interval_s: float | None = None
    lateness_s: float | None = None

    @property
    def is_late(self) -> bool:
        """Whether a whole reading is missing."""
        return self.lateness_s is not None and self.interval_s is not None and self.lateness_s > self.interval_s


class Fleet:
    """Looked at from a thread beside the event loop: each answer is a snapshot.

    `usage_intervals`: seconds between two sweeps of each usage source.
    """

    def __init__(
        self,
        active: ActiveSet,
        context: ReadingContext,
        usage_intervals: Mapping[ResourceSource, float],
        now_ns: Callable[[], int],
    ) -> None:
        self._active = active
        self._context = context
        self._usage_intervals = usage_intervals
        self.now_ns = now_ns

    def __iter__(self) -> Iterator[Tracked]:
        return iter(self._active)

    def with_id(self, sandbox_id: str) -> tuple[Tracked, ...]:
        """Return the sandboxes of that id: one for each deployment that has it."""
        return self._active.with_id(sandbox_id)

    @property
    def deployments(self) -> tuple[str, ...]:
        """Names of the configured deployments."""
        return tuple(self._context.providers)

    @property
    def asked_interval_s(self) -> float:
        """Return the configured interval, in seconds; 0 where nothing is read."""
        return self._context.settings.collection_interval

    def state(self, sandbox: Tracked) -> SandboxState:
        """Return how the poller treats the sandbox at present."""
        return self._context.state(sandbox)

    def standing(self, sandbox: Tracked, now_ns: int) -> Standing:
        """Return how a sandbox stands; one that is paused or has ended is due no reading."""
        state, interval_s = self._context.state(sandbox), self._interval_s(sandbox)
        if state is not SandboxState.ACTIVE or interval_s is None:
            return Standing(now_ns=now_ns, state=state)
        last_ns = last_reading_ns(sandbox) or began_ns(sandbox)
        late_s = None if last_ns is None else max(0.0, (now_ns - last_ns) / 1e9 - interval_s)
        return Standing(now_ns=now_ns, state=state, interval_s=interval_s, lateness_s=late_s)

    def _interval_s(self, sandbox: Tracked) -> float | None:
        if sandbox.deployment not in self._context.providers:
            return None
        if self._context.reads_execd(sandbox):
            return self._context.interval(sandbox)
        usage = sandbox.progress.usage
        return self._usage_intervals.get(usage.source) if usage is not None else None


def began_ns(sandbox: Tracked) -> int | None:
    """Return when a sandbox was up, ns since the epoch."""
    start = sandbox.lifecycle.start
    return sender_clock.started_ns(start) if start is not None else None


def ended_ns(sandbox: Tracked) -> int | None:
    """Return when a sandbox ended, ns since the epoch; None while it lives."""
    end = sandbox.progress.end
    return sender_clock.ended_ns(sandbox.lifecycle, end) if end is not None else None


def last_reading_ns(sandbox: Tracked) -> int | None:
    """Return when the last good reading began, of its daemon or, without one, of a usage source."""
    progress = sandbox.progress
    if progress.last_reading_ns is not None:
        return progress.last_reading_ns
    return progress.usage.last_reading_ns if progress.usage is not None else None


def is_leaked(sandbox: Tracked) -> bool:
    """Tell whether it outlives its rollout, or its stop, and lives still."""
    return sandbox.progress.leaked and sandbox.progress.end is None


def is_failing(sandbox: Tracked) -> bool:
    """Tell whether the last attempt to read it gave nothing; while it is paused, none can."""
    progress = sandbox.progress
    usage_fails = progress.usage is not None and bool(progress.usage.failed_in_a_row_ns)
    return progress.end is None and not progress.paused and (bool(progress.failed_in_a_row_ns) or usage_fails)
