"""How one sandbox lived and ended."""

from dataclasses import dataclass, field
from typing import Self

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, flag, number, text, whole
from sandgauge_schemas.records.allocation import Allocation
from sandgauge_schemas.records.keys import JoinKeys, double, present
from sandgauge_schemas.records.requests import Sidecar, Submission, read_sidecars, sidecar_attributes
from sandgauge_schemas.resources import SandboxResources

_PREFIX = names.PREFIX_NEMO_GYM_SANDBOX_SUMMARY_CPU_COUNT.removesuffix(".cpu_count")
SUMMARY_QUANTITIES = (
    "cpu_used_percentage",
    "memory_used_mib",
    "memory_total_mib",
    "cpu_count",
    "cpu_used_cores",
    "memory_working_set_mib",
)
"""The quantities that a summary has statistics of: four of execd's readings, then two of a usage source's."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Minimum, mean, maximum and last of one quantity over a sandbox's readings."""

    min: float
    mean: float
    max: float
    last: float

    def to_attributes(self, prefix: str) -> dict[str, AttributeValue]:
        """Return `<prefix>.min`, `.mean`, `.max` and `.last` as doubles."""
        return {f"{prefix}.{key}": float(getattr(self, key)) for key in ("min", "mean", "max", "last")}

    @classmethod
    def from_attributes(cls, attributes: Attributes, prefix: str) -> Self | None:
        """Read the four numbers; None unless all are there."""
        values = [number(attributes, f"{prefix}.{key}") for key in ("min", "mean", "max", "last")]
        present = [value for value in values if value is not None]
        return cls(*present) if len(present) == len(values) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRecord:
    """`gym.sandbox.resource.summary`: how one sandbox lived and ended, with the other quantities echoed.

    `lifetime_s` runs from the end of the start span to the end as known; `statistics` by SUMMARY_QUANTITIES.
    `cpu_time_s` (seconds) and `oom_kills` are those that `usage_source` counted.
    """

    keys: JoinKeys
    end_reason: str
    leaked: bool
    oom_killed: bool | None = None
    lifetime_s: float | None = None
    readings_count: int = 0
    readings_missed: int = 0
    effective_interval_s: float | None = None
    statistics: dict[str, Statistics] = field(default_factory=dict)
    cpu_scope: str | None = None
    memory_scope: str | None = None
    cpu_time_s: float | None = None
    oom_kills: int | None = None
    usage_source: str | None = None
    resets: int = 0
    requested_count: int | None = None
    requested: SandboxResources = SandboxResources()
    sidecars: tuple[Sidecar, ...] = ()
    submission: Submission = Submission()
    allocation: Allocation = Allocation()

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes."""
        attributes = self.keys.to_attributes()
        attributes |= present(
            {
                names.NEMO_GYM_SANDBOX_END_REASON: self.end_reason,
                names.NEMO_GYM_SANDBOX_END_OOM_KILLED: self.oom_killed,
                names.NEMO_GYM_SANDBOX_LEAKED: self.leaked,
                names.NEMO_GYM_SANDBOX_LIFETIME_S: double(self.lifetime_s),
                names.NEMO_GYM_SANDBOX_READINGS_COUNT: self.readings_count,
                names.NEMO_GYM_SANDBOX_READINGS_MISSED: self.readings_missed,
                names.NEMO_GYM_SANDBOX_READINGS_EFFECTIVE_INTERVAL_S: double(self.effective_interval_s),
                names.NEMO_GYM_SANDBOX_SUMMARY_CPU_SCOPE: self.cpu_scope,
                names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_SCOPE: self.memory_scope,
                names.NEMO_GYM_SANDBOX_SUMMARY_CPU_TIME_S: double(self.cpu_time_s),
                names.NEMO_GYM_SANDBOX_SUMMARY_OOM_KILLS: self.oom_kills,
                names.NEMO_GYM_SANDBOX_SUMMARY_USAGE_SOURCE: self.usage_source,
                names.NEMO_GYM_SANDBOX_SUMMARY_RESETS: self.resets,
            }
        )
        for quantity, statistics in self.statistics.items():
            attributes |= statistics.to_attributes(f"{_PREFIX}.{quantity}")
        attributes |= present({names.NEMO_GYM_SANDBOX_REQUESTED_COUNT: self.requested_count})
        attributes |= self.requested.to_attributes(names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED)
        attributes |= sidecar_attributes(self.sidecars)
        return attributes | self.submission.to_attributes() | self.allocation.to_attributes()

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a summary span's attributes."""
        statistics = {
            quantity: found
            for quantity in SUMMARY_QUANTITIES
            if (found := Statistics.from_attributes(attributes, f"{_PREFIX}.{quantity}")) is not None
        }
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            end_reason=text(attributes, names.NEMO_GYM_SANDBOX_END_REASON) or "",
            oom_killed=flag(attributes, names.NEMO_GYM_SANDBOX_END_OOM_KILLED),
            leaked=flag(attributes, names.NEMO_GYM_SANDBOX_LEAKED) or False,
            lifetime_s=number(attributes, names.NEMO_GYM_SANDBOX_LIFETIME_S),
            readings_count=whole(attributes, names.NEMO_GYM_SANDBOX_READINGS_COUNT) or 0,
            readings_missed=whole(attributes, names.NEMO_GYM_SANDBOX_READINGS_MISSED) or 0,
            effective_interval_s=number(attributes, names.NEMO_GYM_SANDBOX_READINGS_EFFECTIVE_INTERVAL_S),
            statistics=statistics,
            cpu_scope=text(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_CPU_SCOPE),
            memory_scope=text(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_SCOPE),
            cpu_time_s=number(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_CPU_TIME_S),
            oom_kills=whole(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_OOM_KILLS),
            usage_source=text(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_USAGE_SOURCE),
            resets=whole(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_RESETS) or 0,
            requested_count=whole(attributes, names.NEMO_GYM_SANDBOX_REQUESTED_COUNT),
            requested=SandboxResources.from_attributes(attributes, names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED),
            sidecars=read_sidecars(attributes),
            submission=Submission.from_attributes(attributes),
            allocation=Allocation.from_attributes(attributes),
        )
