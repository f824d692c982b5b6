"""Spans' times on the poller's clock: their sender may have another one, and may send them late. Pure; times in ns.

A delivery takes no less than nothing, and as a rule seconds. Where a sandbox's two spans are off by the same, one clock
wrote both and what lies between them is exact, however far off it is. Else a time that the poller's own clock
contradicts gives way to it.
"""

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.fold import Lifecycle
from sandgauge_poller.tracking.progress import End, Progress
from sandgauge_schemas.names import EndReason

DELIVERY_NS = 10_000_000_000
"""A span is here so soon after its end: batches of seconds on its way. More is another clock, or a fault between."""


def started_ns(start: StartEvent) -> int | None:
    """Return when a sandbox was up: as its start span says where that can be, else when the span came."""
    said_ns, received_ns = start.end_ns, start.received_ns
    if said_ns is None:
        return None
    return said_ns if 0 <= received_ns - said_ns <= DELIVERY_NS else received_ns


def stop_began_ns(lifecycle: Lifecycle) -> int | None:
    """Return when the deletion began; None without a stop span, or where it does not say."""
    return None if lifecycle.stop is None else _on_own_clock(lifecycle, lifecycle.stop.start_ns)


def ended_ns(lifecycle: Lifecycle, end: End) -> int:
    """Return when a sandbox ended, whoever said so."""
    stop = lifecycle.stop
    said_ns = None if stop is None or end.reason is not EndReason.STOPPED else stop.end_ns or stop.start_ns
    return _on_own_clock(lifecycle, said_ns) or end.at_ns


def lifetime_s(lifecycle: Lifecycle, progress: Progress) -> float | None:
    """Return the seconds between the end of the start span and a sandbox's end; None where nothing can be said."""
    start, end, stop = lifecycle.start, progress.end, lifecycle.stop
    if start is None or end is None or start.end_ns is None:
        return None
    stopped_ns = None if stop is None or end.reason is not EndReason.STOPPED else stop.end_ns or stop.start_ns
    if stop is None or stopped_ns is None:
        return _seconds(started_ns(start), end.at_ns)
    seen_ns = min(stop.received_ns, progress.ended_seen_ns or stop.received_ns)
    ahead_ns = _ahead_ns(lifecycle)
    if ahead_ns is not None:
        return _seconds(start.end_ns, min(stopped_ns, seen_ns + ahead_ns))
    # What was read later than it says it was stopped proves that its clock is behind.
    is_possible = (progress.last_reading_ns or 0) <= stopped_ns <= seen_ns
    return _seconds(min(start.end_ns, start.received_ns), stopped_ns if is_possible else seen_ns)


def _on_own_clock(lifecycle: Lifecycle, said_ns: int | None) -> int | None:
    """Return a time of the stop span on the poller's clock, no later than the span came."""
    stop, ahead_ns = lifecycle.stop, _ahead_ns(lifecycle)
    if stop is None or said_ns is None:
        return None
    # Up to a delivery's time behind is no more than the delivery itself.
    is_other_clock = ahead_ns is not None and not -DELIVERY_NS <= ahead_ns <= 0
    return min(said_ns - (ahead_ns if ahead_ns is not None and is_other_clock else 0), stop.received_ns)


def _ahead_ns(lifecycle: Lifecycle) -> int | None:
    """Return how far the clock that wrote both spans is ahead of the poller's, at least; None if it was not one."""
    start, stop = lifecycle.start, lifecycle.stop
    said_ns = None if stop is None else stop.end_ns or stop.start_ns
    if start is None or start.end_ns is None or stop is None or said_ns is None:
        return None
    aheads = (start.end_ns - start.received_ns, said_ns - stop.received_ns)
    return max(aheads) if max(aheads) - min(aheads) <= DELIVERY_NS else None


def _seconds(begin_ns: int | None, end_ns: int) -> float | None:
    return None if begin_ns is None or end_ns < begin_ns else (end_ns - begin_ns) / 1e9
