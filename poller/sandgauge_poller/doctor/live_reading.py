"""One sandbox, read once and now: what is in force, what its daemon says, and whose machine that describes."""

from dataclasses import dataclass

from sandgauge_poller.reading.provider import AllocationReading, Provider, SampleReading
from sandgauge_poller.reading.scope import Observation, Scopes, decide_scopes, memory_limit_mib


@dataclass(frozen=True, slots=True)
class LiveReading:
    """Both readings; no sample where the daemon is not read, and no scopes where it told no numbers."""

    allocation: AllocationReading
    sample: SampleReading | None = None
    scopes: Scopes | None = None


async def read_live(provider: Provider, sandbox_id: str, *, execd: bool) -> LiveReading:
    """Ask for the allocation, then for a sample if `execd`.

    One reading by itself may leave open what a poller decides: it knows neighbours on the host, and earlier readings.
    """
    allocation = await provider.read_allocation(sandbox_id)
    if not execd:
        return LiveReading(allocation)
    sample = await provider.read_sample(sandbox_id)
    return LiveReading(allocation, sample, scopes_of(allocation, sample))


def scopes_of(allocation: AllocationReading, sample: SampleReading) -> Scopes | None:
    """Decide from one reading alone; None without numbers."""
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
