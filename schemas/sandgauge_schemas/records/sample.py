"""What was used, as one reading by execd saw it."""

from dataclasses import dataclass
from typing import Self

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, flag, number, text, whole
from sandgauge_schemas.records.keys import JoinKeys, ReadingStatus, double, present


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """`gym.sandbox.resource.sample`: one instantaneous reading by execd, or one failed read without numbers.

    `timestamp_ms` is the daemon's own; `cpu_used_percentage` 0..100 of what the daemon sees; memory in MiB.
    A scope says whose machine a number describes, its evidence why.
    """

    keys: JoinKeys
    status: ReadingStatus
    timestamp_ms: int | None = None
    cpu_count: float | None = None
    cpu_used_percentage: float | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    cpu_scope: str | None = None
    cpu_scope_evidence: str | None = None
    memory_scope: str | None = None
    memory_scope_evidence: str | None = None
    final: bool | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes."""
        return {
            **self.keys.to_attributes(),
            **self.status.to_attributes(),
            **present(
                {
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE: self.cpu_scope,
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE_EVIDENCE: self.cpu_scope_evidence,
                    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE: self.memory_scope,
                    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE: self.memory_scope_evidence,
                    names.NEMO_GYM_SANDBOX_SAMPLE_FINAL: self.final,
                }
            ),
            **sample_attributes(
                self.timestamp_ms,
                self.cpu_count,
                self.cpu_used_percentage,
                self.memory_total_mib,
                self.memory_used_mib,
            ),
        }

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a sample span's attributes."""
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            status=ReadingStatus.from_attributes(attributes),
            timestamp_ms=whole(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS),
            cpu_count=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT),
            cpu_used_percentage=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE),
            memory_total_mib=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB),
            memory_used_mib=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB),
            cpu_scope=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE),
            cpu_scope_evidence=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE_EVIDENCE),
            memory_scope=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE),
            memory_scope_evidence=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE),
            final=flag(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_FINAL),
        )


def sample_attributes(
    timestamp_ms: int | None,
    cpu_count: float | None,
    cpu_used_percentage: float | None,
    memory_total_mib: float | None,
    memory_used_mib: float | None,
) -> dict[str, AttributeValue]:
    """Return those attributes of a sample that every reading has anew."""
    return present(
        {
            names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS: timestamp_ms,
            names.NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT: double(cpu_count),
            names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE: double(cpu_used_percentage),
            names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB: double(memory_total_mib),
            names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB: double(memory_used_mib),
        }
    )
