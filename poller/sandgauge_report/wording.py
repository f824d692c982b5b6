"""Amounts, times and ids as people read them; the same words in every form of a report."""

import re

from sandgauge_report.merging.quantities import Quantity
from sandgauge_report.merging.sandboxes import Sandbox, Series
from sandgauge_schemas.names import Resource
from sandgauge_schemas.resources import SandboxResourceAmounts
from sandgauge_schemas.wording import number_of

NOT_SAID = "-"
"""Nobody declared it, so there is nothing to know."""
UNKNOWN = "unknown"
"""It should be known, and no record says it."""

NAMES = {
    Resource.CPU: "cpus",
    Resource.MEMORY_MIB: "memory",
    Resource.DISK_GIB: "disk",
    Resource.GPU: "gpus",
    Resource.GPU_TYPE: "gpu type",
}

_MIB_PER_GIB = 1024
_DIGITS = re.compile(r"(?<![0-9a-z])[0-9a-f]{8}")
_LONGEST_SHORT = 12
_MINUTE_S, _HOUR_S = 60, 3600
_TOO_LONG_FOR_SECONDS = 600


def amount(resource: Resource, value: float | str) -> str:
    """Return an amount with its unit."""
    if isinstance(value, str):
        return value
    match resource:
        case Resource.MEMORY_MIB:
            return memory(value)
        case Resource.DISK_GIB:
            return f"{value:g} GiB"
        case _:
            return f"{round(value, 3):g}"


def memory(mib: float) -> str:
    """Return MiB below one GiB, else GiB."""
    return f"{round(mib, 1):g} MiB" if mib < _MIB_PER_GIB else f"{round(mib / _MIB_PER_GIB, 2):g} GiB"


def reading(quantity: Quantity, value: float) -> str:
    """Return a sampled number with its unit."""
    match quantity:
        case Quantity.CPU_USED_PERCENTAGE:
            return f"{value:.0f} %"
        case Quantity.CPU_USED_CORES:
            return f"{value:.2f}"
        case _:
            return memory(value)


def amounts(of: SandboxResourceAmounts) -> str:
    """Return all amounts that are known in one line."""
    known = [(resource, getattr(of, resource)) for resource in Resource]
    return ", ".join(f"{NAMES[one]} {amount(one, value)}" for one, value in known if value is not None) or "nothing"


def duration(seconds: float) -> str:
    """Return seconds; minutes or hours where they are many."""
    if seconds < _TOO_LONG_FOR_SECONDS:
        return f"{seconds:.3g} s" if seconds < _MINUTE_S else f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def short_id(sandbox_id: str | None) -> str:
    """Return the first eight digits of an id that has so many, without a prefix that many have; else its beginning."""
    found = _DIGITS.search(sandbox_id or "")
    return found[0] if found else (sandbox_id or UNKNOWN)[:_LONGEST_SHORT]


def place(sandbox: Sandbox) -> str:
    """Return which sandbox of which rollout, in one line."""
    rollout = f"rollout {sandbox.rollout_id or UNKNOWN}"
    if sandbox.sandbox_id is not None:
        return f"{rollout}, sandbox {sandbox.sandbox_id}"
    return f"{rollout}, request {sandbox.request_id or UNKNOWN}"


def counted(series: Series) -> str:
    """Return how many readings there were, over which time and by what source."""
    about = "" if series.is_exact else "about "
    window = f" in {duration(series.window_s)}" if series.window_s else ""
    number = f"{UNKNOWN} readings" if series.readings is None else number_of(series.readings, "reading")
    return f"{about}{number}{window} ({series.key.source or 'source ' + UNKNOWN})"
