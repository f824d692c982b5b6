"""Whose machine the numbers of one reading describe, as far as it tells by itself."""

from sandgauge_poller.reading.provider import AllocationReading, SampleReading
from sandgauge_poller.reading.scope import Observation, Scopes, decide_scopes, memory_limit_mib


def scopes_of(allocation: AllocationReading, sample: SampleReading) -> Scopes | None:
    """Decide from one reading alone; None without numbers.

    It may leave open what a poller decides, which knows neighbours on the host, and earlier readings.
    """
    if sample.usage is None:
        return None
    observation = Observation(
        source=sample.source,
        memory_limit_mib=memory_limit_mib(allocation.allocation.components),
        memory_total_mib=sample.usage.memory_total_mib,
        cpu_zeros=int(sample.usage.cpu_used_percentage == 0),
        shared_total=False,
    )
    return decide_scopes(observation, None)
