"""What was used, as a source beside the sandbox saw it as a whole."""

from dataclasses import dataclass
from typing import Self

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, number, whole
from sandgauge_schemas.records.keys import JoinKeys, ReadingStatus, double, present

_SCOPES: dict[str, AttributeValue] = {
    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE: names.SampleScope.SANDBOX,
    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE_EVIDENCE: names.ScopeEvidence.SOURCE,
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE: names.SampleScope.SANDBOX,
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE: names.ScopeEvidence.SOURCE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRecord:
    """`gym.sandbox.resource.sample` of a usage source: one reading of the sandbox itself, or one that failed.

    `timestamp_ms` is the source's own; `cpu_used_cores` a mean over `window_s` seconds; memory in MiB.
    `cpu_time_s`, `cpu_throttled_s` (seconds) and `oom_kills` accumulate.
    """

    keys: JoinKeys
    status: ReadingStatus
    timestamp_ms: int | None = None
    cpu_used_cores: float | None = None
    window_s: float | None = None
    cpu_time_s: float | None = None
    memory_working_set_mib: float | None = None
    cpu_throttled_s: float | None = None
    oom_kills: int | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes; the numbers of a good reading are always the sandbox's own."""
        return {
            **self.keys.to_attributes(),
            **self.status.to_attributes(),
            **(_SCOPES if self.status.error_type is None else {}),
            **present(
                {
                    names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS: self.timestamp_ms,
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_CORES: double(self.cpu_used_cores),
                    names.NEMO_GYM_SANDBOX_SAMPLE_WINDOW_S: double(self.window_s),
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_TIME_S: double(self.cpu_time_s),
                    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_WORKING_SET_MIB: double(self.memory_working_set_mib),
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_THROTTLED_S: double(self.cpu_throttled_s),
                    names.NEMO_GYM_SANDBOX_SAMPLE_OOM_KILLS: self.oom_kills,
                }
            ),
        }

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a sample span's attributes."""
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            status=ReadingStatus.from_attributes(attributes),
            timestamp_ms=whole(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS),
            cpu_used_cores=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_CORES),
            window_s=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_WINDOW_S),
            cpu_time_s=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_TIME_S),
            memory_working_set_mib=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_WORKING_SET_MIB),
            cpu_throttled_s=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_THROTTLED_S),
            oom_kills=whole(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_OOM_KILLS),
        )
