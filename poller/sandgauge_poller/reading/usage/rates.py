"""From cumulative CPU time to cores, over the source's own time stamps. Pure."""

from dataclasses import dataclass

from sandgauge_poller.reading.usage.source import UsageObservation
from sandgauge_poller.tracking.progress import UsageMark

_MOST_SKEW_NS = 60 * 10**9
"""A source's clock that is off by more between two time stamps was set meanwhile."""

_SHORTEST_S = 1.0
"""A first window that is shorter would be mostly the start itself, of which the beginning is not told to the moment."""


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """What an observation tells together with the one before it.

    `cpu_used_cores`: mean over `window_s` seconds; both None where there is no window to form it over.
    `is_reset`: another life began since, so that what accumulates began anew.
    """

    cpu_used_cores: float | None = None
    window_s: float | None = None
    is_reset: bool = False


def window_since(before: UsageMark | None, now: UsageObservation, passed_ns: int) -> UsageWindow | None:
    """Return the window that ends with `now`, or None where it says nothing new: a time stamp counts once.

    `passed_ns`: how long ago the one before was asked for, on the poller's clock. Where the source's own clock was set
    in between nothing tells how long the window is, and the next one begins in the new time.
    A mean that the source itself forms is taken as it is. Else it is the difference of CPU time over that of the time
    stamps: divided by the time of asking it would be off by as long as the source took (measured: up to 10 %).
    """
    clock_was_set = before is not None and _was_set(now.timestamp_ns - before.timestamp_ns, passed_ns)
    if before is not None and now.timestamp_ns <= before.timestamp_ns and not clock_was_set:
        return None
    is_reset = before is not None and _is_another_life(before, now)
    if now.cpu_used_cores is not None:
        return UsageWindow(now.cpu_used_cores, now.window_s, is_reset)
    if before is None:
        return _since_its_beginning(now)
    if is_reset or clock_was_set or before.cpu_time_s is None or now.cpu_time_s is None:
        return UsageWindow(is_reset=is_reset)
    window_s = (now.timestamp_ns - before.timestamp_ns) / 1e9
    return UsageWindow((now.cpu_time_s - before.cpu_time_s) / window_s, window_s)


def _since_its_beginning(now: UsageObservation) -> UsageWindow:
    """Return the window of a first observation: all of the life so far, where it is known when that began."""
    if now.started_ns is None or now.cpu_time_s is None:
        return UsageWindow()
    window_s = (now.timestamp_ns - now.started_ns) / 1e9
    return UsageWindow(now.cpu_time_s / window_s, window_s) if window_s >= _SHORTEST_S else UsageWindow()


def mark_of(now: UsageObservation) -> UsageMark:
    """Return where the next window begins."""
    return UsageMark(now.timestamp_ns, now.cpu_time_s, now.started_ns)


def _was_set(elapsed_ns: int, passed_ns: int) -> bool:
    """Tell whether a clock was set: it went back, or further than time did. One that stands still is only stale."""
    return elapsed_ns < -_MOST_SKEW_NS or elapsed_ns > passed_ns + _MOST_SKEW_NS


def _is_another_life(before: UsageMark, now: UsageObservation) -> bool:
    if before.started_ns is not None and now.started_ns not in (None, before.started_ns):
        return True
    if before.started_ns is None and now.started_ns is not None and now.started_ns > before.timestamp_ns:
        return True
    return before.cpu_time_s is not None and now.cpu_time_s is not None and now.cpu_time_s < before.cpu_time_s
