"""What a simulated sandbox or machine uses, as a function of time."""

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import NamedTuple
from zlib import crc32

from sandgauge_schemas.quantity import Quantity, parse_quantity

_DEFAULT_CORES = 1.0
_DEFAULT_MEMORY_MIB = 512.0
_VARIANTS = 16
_WAVES = 60


class UsagePoint(NamedTuple):
    """Usage at one moment: seconds since the start, CPU cores, MiB of memory."""

    at_s: float
    cpu_cores: float
    memory_mib: float


Timeline = tuple[UsagePoint, ...]
"""Usage over time, in order of time: straight lines between the points, constant before the first and after the last.

Two points a moment apart make a step, as a restart under the same id does.
"""


def usage_at(timeline: Timeline, seconds: float) -> UsagePoint:
    """Return the usage at a moment. An empty timeline uses nothing."""
    if not timeline:
        return UsagePoint(seconds, 0.0, 0.0)
    index = bisect_right(timeline, seconds, key=lambda point: point.at_s)
    before, after = timeline[max(index - 1, 0)], timeline[min(index, len(timeline) - 1)]
    if after.at_s <= before.at_s:
        return UsagePoint(seconds, before.cpu_cores, before.memory_mib)
    part = (seconds - before.at_s) / (after.at_s - before.at_s)
    return UsagePoint(
        seconds,
        before.cpu_cores + part * (after.cpu_cores - before.cpu_cores),
        before.memory_mib + part * (after.memory_mib - before.memory_mib),
    )


def plausible_usage(sandbox_id: str, cpu_limit: str | None, memory_limit: str | None) -> Timeline:
    """Return a timeline within the limits: a busy start-up, a climb of half a minute, then ten minutes of waves.

    The same id and limits give the same timeline; different ids give one of a few, so that thousands share them.
    """
    cores = amount(cpu_limit, Quantity.to_cores) or _DEFAULT_CORES
    memory_mib = amount(memory_limit, Quantity.to_mebibytes) or _DEFAULT_MEMORY_MIB
    return _plausible(crc32(sandbox_id.encode()) % _VARIANTS, cores, memory_mib)


@lru_cache(maxsize=64 * _VARIANTS)
def _plausible(variant: int, cores: float, memory_mib: float) -> Timeline:
    random = Random(variant)  # noqa: S311 - the same picture each time is what is wanted
    peak_mib = memory_mib * random.uniform(0.3, 0.9)
    waves = (
        UsagePoint(30.0 + 10.0 * wave, cores * random.uniform(0.0, 0.95), peak_mib * random.uniform(0.8, 1.0))
        for wave in range(_WAVES)
    )
    return (UsagePoint(0.0, cores * 0.9, memory_mib * 0.05), UsagePoint(5.0, cores * 0.3, memory_mib * 0.2), *waves)


def amount(text: str | None, unit: Callable[[Quantity], float]) -> float | None:
    """Return a quantity's text in a unit; None without a text, and for a text that is no quantity."""
    quantity = parse_quantity(text) if text is not None else None
    return unit(quantity) if isinstance(quantity, Quantity) else None
