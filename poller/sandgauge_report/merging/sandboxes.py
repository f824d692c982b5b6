"""One sandbox as a report has it: the four quantities side by side, each absent where no record says it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sandgauge_report.merging.distinct import DistinctReadings
from sandgauge_report.merging.quantities import Quantity, SeriesKey
from sandgauge_report.merging.sandbox_state import MemoryTotal
from sandgauge_schemas.names import Resource, ResourceSource, SampleScope
from sandgauge_schemas.records import Allocation, ComponentAllocation, Sidecar, Submission
from sandgauge_schemas.resources import RESOURCE_KEYS, SandboxResourceAmounts

MAIN_COMPONENT = "sandbox"

_TASK = re.compile(r"(.+)-[0-9]+(?:-a[0-9]+)?")
"""A rollout id of Gym: task, rollout, and which attempt."""

_SCOPE_ORDER = (SampleScope.SANDBOX, SampleScope.UNKNOWN, SampleScope.NODE)


class Creation(StrEnum):
    """What became of a wish for a sandbox."""

    CREATED = "created"
    FAILED = "failed"
    """A start span says that it was not created."""
    NO_START = "no_start"
    """Its rollout is over, or much time has gone by, and there is no start span."""
    PENDING = "pending"
    """There is no start span yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Statistics of the readings of one quantity by one source; `key.scope` says whose machine they describe.

    `readings` is None where a summary does not count them, and `p95` where only a summary is known. Unless `is_exact`,
    `p95` is that of a sample; so are `readings` and `mean` where there is no summary.
    Times are ns since the epoch, on the poller's clock.
    """

    key: SeriesKey
    readings: int | None
    is_exact: bool
    min: float
    mean: float
    p95: float | None
    max: float
    last: float
    first_ns: int | None = None
    last_ns: int | None = None
    sample: DistinctReadings | None = field(default=None, repr=False, compare=False)
    """The readings themselves, to be put together with others."""

    @property
    def window_s(self) -> float | None:
        """Seconds from the first reading to the last."""
        if self.first_ns is None or self.last_ns is None:
            return None
        return (self.last_ns - self.first_ns) / 1e9


def preference(series: Series) -> tuple[int, bool, str]:
    """Sort key of series of one resource: a sandbox's own numbers first, and a source beside it before its daemon."""
    key = series.key
    return _SCOPE_ORDER.index(key.scope), not key.quantity.is_of_usage_source, key.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """One sandbox, or `count` of one request that were not created. What no record says is None."""

    run_id: str | None = None
    rollout_id: str | None = None
    trace_id: str | None = None
    request_id: str | None = None
    sandbox_id: str | None = None
    provider: str | None = None
    scope: str | None = None
    """Control plane that its start span names."""
    server: str | None = None
    service: str | None = None
    """Name of the Compose service, where it is one."""
    creation: Creation = Creation.CREATED
    count: int = 1
    error_type: str | None = None
    """Why it was not created."""
    begun_ns: int = 0
    """When it was asked for, or first heard of; 0 where nothing says it."""

    requested: SandboxResourceAmounts | None = None
    sidecars: tuple[Sidecar, ...] = ()
    submission: Submission | None = None
    allocation: Allocation | None = None
    allocation_source: str | None = None
    unallocated: str | None = None
    """Why the allocation could not be read, where none ever was."""

    series: tuple[Series, ...] = ()
    """For each resource the preferred first."""
    memory_totals: Mapping[SampleScope, MemoryTotal] = field(default_factory=dict)
    readings: int | None = None
    missed: int | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failed readings by error type."""
    interval_s: float | None = None

    lifetime_s: float | None = None
    end: str | None = None
    oom_killed: bool | None = None
    oom_kills: int | None = None
    leaked: bool | None = None
    outlived_s: float | None = None
    """How long after its stop or its rollout's end it still was read."""
    resets: int | None = None
    has_poller_records: bool = False

    @property
    def task(self) -> str | None:
        """The task that its rollout is an attempt at, as Gym's rollout ids tell it."""
        found = _TASK.fullmatch(self.rollout_id or "")
        return found[1] if found else None

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is to come: it was not created, or its summary is there."""
        return self.creation is Creation.FAILED or self.leaked is not None

    @property
    def main(self) -> ComponentAllocation | None:
        """What the main container was allocated: the one called `sandbox`, else the only one."""
        components = () if self.allocation is None else self.allocation.components
        main = [one for one in components if one.name == MAIN_COMPONENT] or components
        return main[0] if len(main) == 1 else None

    @property
    def total(self) -> ComponentAllocation:
        """What all components together were allocated."""
        components = () if self.allocation is None else self.allocation.components
        return ComponentAllocation(
            name="",
            requests=_summed([one.requests for one in components]),
            limits=_summed([one.limits for one in components]),
        )

    def preferred(self, resource: Resource) -> Series | None:
        """Return the readings that say most of a resource's use."""
        return next((series for series in self.series if series.key.quantity.resource is resource), None)

    def limit_of(self, series: Series) -> float | None:
        """Return the limit that readings can be set against, in their unit; None unless both are the sandbox's own."""
        allocated = self._allocated_for(series)
        return None if allocated is None else _of(allocated.limits, series) or None

    def reserved_for(self, series: Series) -> float | None:
        """Return what a scheduler keeps free for it: what it requests, else its limit; as `limit_of` does."""
        allocated = self._allocated_for(series)
        return None if allocated is None else _of(allocated.requests, series) or _of(allocated.limits, series) or None

    def _allocated_for(self, series: Series) -> ComponentAllocation | None:
        """Return whose allocation readings are to be compared with: the pod's, where they are of a whole pod."""
        if series.key.scope is not SampleScope.SANDBOX or series.key.quantity is Quantity.CPU_USED_PERCENTAGE:
            return None
        return self.total if series.key.source == ResourceSource.KUBERNETES_METRICS else self.main


def _of(amounts: SandboxResourceAmounts, series: Series) -> float | None:
    return amounts.cpu if series.key.quantity.resource is Resource.CPU else amounts.memory_mib


def _summed(parts: list[SandboxResourceAmounts]) -> SandboxResourceAmounts:
    """Add up components; a resource that one of them does not state has no known sum."""
    if len(parts) == 1:
        return parts[0]
    sums = {}
    for resource in RESOURCE_KEYS:
        amounts = [getattr(part, resource) for part in parts]
        if amounts and resource is not Resource.GPU_TYPE and None not in amounts:
            sums[str(resource)] = sum(amounts)
    return SandboxResourceAmounts(**sums)
