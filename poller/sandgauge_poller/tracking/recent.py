"""What the last hour of readings said, one point a minute: kept in memory alone, for whoever looks at the poller."""

from array import array
from dataclasses import dataclass
from math import isnan, nan

from sandgauge_schemas.names import ErrorType

MINUTES = 60
"""How far back the points go."""

_NS_PER_MINUTE = 60 * 10**9
_NOTHING = array("f", [nan]) * MINUTES


def minute_of(time_ns: int) -> int:
    """Return the minute since the epoch that a time in ns since the epoch falls into."""
    return time_ns // _NS_PER_MINUTE


class Hour:
    """One number for each of the last sixty minutes, in 300 bytes; a minute without one is absent."""

    __slots__ = ("_newest", "_points")

    def __init__(self) -> None:
        self._points = array("f", _NOTHING)
        self._newest = 0

    def raise_to(self, minute: int, value: float) -> None:
        """Keep the highest value of the minute: a mean would hide the peak that a sandbox dies of."""
        self._reach(minute)
        at = minute % MINUTES
        if not self._points[at] >= value:  # which holds for an absent one too
            self._points[at] = value

    def add(self, minute: int, value: float) -> None:
        """Add to the total of the minute."""
        self._reach(minute)
        at = minute % MINUTES
        before = self._points[at]
        self._points[at] = value if isnan(before) else before + value

    def until(self, minute: int) -> list[float | None]:
        """Return the points of the hour that ends with `minute`, oldest first, from the first that is there."""
        points: list[float | None] = []
        for each in range(minute - MINUTES + 1, minute + 1):
            is_kept = self._newest - MINUTES < each <= self._newest
            value = self._points[each % MINUTES] if is_kept else nan
            if points or not isnan(value):
                points.append(None if isnan(value) else value)
        return points

    def _reach(self, minute: int) -> None:
        """Clear what lies between the newest minute and this one; all of it where the clock was set."""
        if abs(minute - self._newest) >= MINUTES:
            self._points, self._newest = array("f", _NOTHING), minute
        while self._newest < minute:
            self._newest += 1
            self._points[self._newest % MINUTES] = nan


@dataclass(slots=True)
class Recent:
    """Of one sandbox: its last hour by quantity, and why the last attempt gave nothing, None where it gave something.

    CPU in percent of what the daemon sees, or in cores as its usage source says; memory in MiB.
    """

    cpu_used_percentage: Hour | None = None
    memory_used_mib: Hour | None = None
    error_type: ErrorType | None = None
    cpu_used_cores: Hour | None = None
    memory_working_set_mib: Hour | None = None
    usage_error_type: ErrorType | None = None
