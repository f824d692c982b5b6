"""What is sampled: the quantities that a report has statistics of, and how one source's readings are told apart."""

from enum import StrEnum
from typing import NamedTuple

from sandgauge_schemas import names
from sandgauge_schemas.names import Resource, SampleScope


class Quantity(StrEnum):
    """A sampled quantity, in the words of the records; each source gives one for CPU and one for memory."""

    CPU_USED_PERCENTAGE = "cpu_used_percentage"
    CPU_USED_CORES = "cpu_used_cores"
    MEMORY_USED_MIB = "memory_used_mib"
    MEMORY_WORKING_SET_MIB = "memory_working_set_mib"

    @property
    def resource(self) -> Resource:
        """The resource that it is the use of."""
        return Resource.CPU if self in _OF_CPU else Resource.MEMORY_MIB

    @property
    def is_of_usage_source(self) -> bool:
        """Whether a source beside the sandbox gives it, and not the sandbox's own daemon."""
        return self in _OF_USAGE_SOURCES


_OF_CPU = frozenset({Quantity.CPU_USED_PERCENTAGE, Quantity.CPU_USED_CORES})
_OF_USAGE_SOURCES = frozenset({Quantity.CPU_USED_CORES, Quantity.MEMORY_WORKING_SET_MIB})

SAMPLED = (
    (
        Quantity.CPU_USED_PERCENTAGE,
        names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE,
        names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE,
    ),
    (Quantity.CPU_USED_CORES, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_CORES, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE),
    (
        Quantity.MEMORY_USED_MIB,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE,
    ),
    (
        Quantity.MEMORY_WORKING_SET_MIB,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_WORKING_SET_MIB,
        names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE,
    ),
)
"""Quantity, and the attributes of its number and of its scope on a sample."""


class SeriesKey(NamedTuple):
    """Readings that may be put together: of one quantity, by one source, of the same kind of machine."""

    quantity: Quantity
    source: str
    scope: SampleScope
