"""What the poller itself has seen of one sandbox: kept beside its events, written with every record it made."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource, SampleScope, ScopeEvidence
from sandgauge_schemas.records import Allocation, ReadingStatus, Statistics

_MOST_FAILED_KEPT = 64
"""Failed readings remembered in a row; a stop span comes within seconds, not after so many."""


@dataclass(slots=True)
class RunningStatistics:
    """Minimum, mean, maximum and last of one quantity, kept without its readings."""

    count: int
    total: float
    min: float
    max: float
    last: float

    @classmethod
    def of(cls, value: float) -> "RunningStatistics":
        """Begin with a first value."""
        return cls(count=1, total=value, min=value, max=value, last=value)

    def add(self, value: float) -> None:
        """Add one more value."""
        self.count += 1
        self.total += value
        self.min = min(self.min, value)
        self.max = max(self.max, value)
        self.last = value

    def result(self) -> Statistics:
        """Return the four numbers of a summary."""
        return Statistics(min=self.min, mean=self.total / self.count, max=self.max, last=self.last)


@dataclass(frozen=True, slots=True)
class ScopeDecision:
    """Whose machine a quantity describes, and why; the first decision stays until the allocation changes."""

    scope: SampleScope
    evidence: ScopeEvidence


@dataclass(slots=True)
class Series:
    """One live series: the attributes of its points and the time of the last one, ns since the epoch.

    `start_ns`: of a sum, since when it accumulates.
    """

    attributes: dict[str, str]
    last_ns: int
    start_ns: int | None = None


@dataclass(frozen=True, slots=True)
class UsageMark:
    """Where the next window of a usage source begins: its last time stamp, and what it told then."""

    timestamp_ns: int
    cpu_time_s: float | None = None
    started_ns: int | None = None


@dataclass(slots=True, kw_only=True)
class ReadingAccount:
    """How readings of one sandbox by one way went; times are ns since the epoch on the poller's clock."""

    readings: int = 0
    missed: int = 0
    failed_in_a_row_ns: list[int] = field(default_factory=list)
    """When the failed readings since the last good one began; the latest few."""
    first_reading_ns: int | None = None
    last_reading_ns: int | None = None

    @property
    def effective_interval_s(self) -> float | None:
        """The mean time between two good readings; None of fewer than two."""
        first_ns, last_ns = self.first_reading_ns, self.last_reading_ns
        if first_ns is None or last_ns is None or self.readings < 2:  # noqa: PLR2004  # an interval has two ends
            return None
        return (last_ns - first_ns) / 1e9 / (self.readings - 1)

    def count_good(self, start_ns: int) -> None:
        """Count a good reading."""
        self.readings += 1
        self.failed_in_a_row_ns = []
        self.first_reading_ns = self.first_reading_ns or start_ns
        self.last_reading_ns = start_ns

    def count_failed(self, start_ns: int) -> None:
        """Remember a failed reading; whether it was missed is for others to say."""
        self.failed_in_a_row_ns = [*self.failed_in_a_row_ns, start_ns][-_MOST_FAILED_KEPT:]


@dataclass(slots=True)
class UsageProgress(ReadingAccount):
    """What a usage source has told of one sandbox; its time stamps are the source's own, ns since the epoch."""

    source: ResourceSource
    mark: UsageMark | None = None
    since_ns: int | None = None
    """Since when its CPU time accumulates: the life's beginning, else what comes nearest."""
    earlier_cpu_time_s: float = 0.0
    """CPU time of the lives before this one."""
    resets: int = 0
    kills: int | None = None
    kills_since_ns: int | None = None
    kills_watch_ns: int | None = None
    """Since when the source counts kills, and how many it had counted so far."""
    kills_watched: int = 0
    kills_told: int = 0
    """Kills as the last point of their series said."""


@dataclass(slots=True)
class End:
    """How a sandbox ended; `at_ns` is on the clock of whoever said so."""

    reason: EndReason
    at_ns: int


@dataclass(slots=True)
class Progress(ReadingAccount):
    """Everything that must survive a restart beside the events; times are ns since the epoch on the poller's clock."""

    allocation: Allocation | None = None
    """The last quantities known; kept while later reads fail."""
    recorded_allocation: Allocation | None = None
    """What the last allocation record said, its placement included; None before the first."""
    allocation_status: ReadingStatus | None = None
    """Status of the last allocation record."""
    statistics: dict[str, RunningStatistics] = field(default_factory=dict)
    cpu: ScopeDecision | None = None
    memory: ScopeDecision | None = None
    cpu_zeros: int = 0
    series: dict[str, Series] = field(default_factory=dict)
    """Live series by metric name."""
    usage: UsageProgress | None = None
    """None where no usage source has answered."""
    started_ns: int | None = None
    """When its container or pod began its present life, on the clock of whoever runs it."""
    restarts: int | None = None
    """How often its container was started again within that life, as last told."""
    resets: int = 0
    oom_killed: bool | None = None
    expires_at_ns: int | None = None
    not_found_ns: int | None = None
    """When the control plane first said 'not found' in an unbroken row."""
    paused: bool = False
    """The control plane last said so: it is asked before each reading, for its daemon would never answer."""
    end: End | None = None
    ended_seen_ns: int | None = None
    """When the poller learnt of the end."""
    stop_overruled: bool = False
    """The control plane still had the sandbox after its stop and the grace."""
    confirmed: bool = False
    """The question after a stop was answered."""
    leaked: bool = False
    summarised: bool = False
    inherited: bool = False
    """Another poller followed it before, and nothing of what that one saw is known here."""

    @property
    def is_seen(self) -> bool:
        """Whether its control plane, its daemon or a usage source has ever shown that there is such a sandbox."""
        status, usage = self.allocation_status, self.usage
        return (
            self.first_reading_ns is not None
            or self.allocation is not None
            or self.expires_at_ns is not None
            or self.paused
            or (usage is not None and usage.first_reading_ns is not None)
            or (status is not None and status.error_type in (None, ErrorType.NO_SUPPORTED_QUANTITY))
        )

    @property
    def ended_before_it_was_inherited(self) -> bool:
        """Whether the sandbox was gone when this poller first looked for it: its former owner has told its end."""
        is_stopped = self.end is not None and self.end.reason is EndReason.STOPPED
        return self.inherited and not is_stopped and not self.is_seen

    def condense(self, values: Mapping[str, float]) -> None:
        """Take the numbers of one good reading, by metric name, into the statistics."""
        for metric, value in values.items():
            if metric in self.statistics:
                self.statistics[metric].add(value)
            else:
                self.statistics[metric] = RunningStatistics.of(value)


_adapter = TypeAdapter(Progress)


def dump_progress(progress: Progress) -> bytes:
    """Return progress as JSON for its row."""
    return _adapter.dump_json(progress, exclude_defaults=True)


def load_progress(row: bytes | str) -> Progress:
    """Read a row back; raises ValueError when it is not one."""
    return _adapter.validate_json(row)
