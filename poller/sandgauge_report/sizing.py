"""What sandboxes could be reserved instead: from their own readings alone, and not from few."""

import math
from dataclasses import dataclass

from sandgauge_report.merging.sandboxes import Series
from sandgauge_schemas.names import Resource, SampleScope

FEWEST_READINGS = 20
"""Below these no advice is given: the 95th percentile of fewer is just their maximum."""

HEADROOM = 1.25
"""Advised above the highest reading of memory, which kills where it runs out, and the 95th percentile of CPU."""

_STEP = {Resource.CPU: 0.1, Resource.MEMORY_MIB: 64.0}
"""Advice is rounded up to these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to reserve of a resource, in its unit; `advised` is None where `refusal` says why there is no advice.

    `readings` and `window_s` are what it rests on.
    """

    resource: Resource
    reserved: float | None
    advised: float | None = None
    refusal: str | None = None
    readings: int | None = None
    window_s: float | None = None


def advise(resource: Resource, reserved: float | None, series: Series | None) -> Advice:
    """Advise on what is reserved of a resource, in view of the readings of its use."""
    if series is None:
        return Advice(resource=resource, reserved=reserved, refusal="no readings")
    refusal = _refusal(series)
    return Advice(
        resource=resource,
        reserved=reserved,
        advised=None if refusal else _advised(resource, series),
        refusal=refusal,
        readings=series.readings,
        window_s=series.window_s,
    )


def _refusal(series: Series) -> str | None:
    if series.key.scope is not SampleScope.SANDBOX:
        is_node = series.key.scope is SampleScope.NODE
        return "the readings describe the node" if is_node else "nothing tells whose machine the readings describe"
    if series.key.quantity.value.endswith("percentage"):
        return "the readings are percentages of what the daemon sees"
    if series.readings is None or series.readings < FEWEST_READINGS:
        return f"fewer than {FEWEST_READINGS} readings"
    return None


def _advised(resource: Resource, series: Series) -> float:
    used = series.max if resource is Resource.MEMORY_MIB or series.p95 is None else series.p95
    step = _STEP[resource]
    return max(step, round(math.ceil(HEADROOM * used / step) * step, 3))
