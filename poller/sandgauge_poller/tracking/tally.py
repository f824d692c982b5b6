"""The part of a sandbox's progress that every reading changes, as a few packed numbers.

A reading of a thousand a second must not write all that is known of its sandbox again. Whatever else changed is written
as a whole (`progress`), always with its tally, so that of the two the tally is never the older one.
"""

import struct
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from sandgauge_poller.tracking.progress import Progress, RunningStatistics
from sandgauge_poller.tracking.quantities import EXECD_QUANTITIES

_LAYOUT = 1
_NONE = -1
_HEAD = struct.Struct("<B5q")
_STATISTICS = struct.Struct("<q4d")
_TIME = struct.Struct("<q")
_FAILED_AT = _HEAD.size + len(EXECD_QUANTITIES) * (_STATISTICS.size + _TIME.size)
_NO_STATISTICS = bytes(_STATISTICS.size)
_NO_SERIES = _TIME.pack(_NONE)

_IN_TALLY = frozenset(
    {
        "readings",
        "missed",
        "failed_in_a_row_ns",
        "first_reading_ns",
        "last_reading_ns",
        "statistics",
        "cpu_zeros",
        "series",
    }
)
_others: Callable[[Progress], tuple[Any, ...]] = attrgetter(
    *(field.name for field in fields(Progress) if field.name not in _IN_TALLY)
)


def beyond_tally(progress: Progress) -> tuple[object, ...]:
    """Return what a tally does not hold, to compare with a later one; what a usage source told is not looked into."""
    return _others(progress), tuple(progress.series.values())


def dump_tally(progress: Progress) -> bytes:
    """Return the counts of a sandbox's readings."""
    first_ns, last_ns = progress.first_reading_ns, progress.last_reading_ns
    parts = [
        _HEAD.pack(
            _LAYOUT,
            progress.readings,
            progress.missed,
            _NONE if first_ns is None else first_ns,
            _NONE if last_ns is None else last_ns,
            progress.cpu_zeros,
        )
    ]
    statistics, series = progress.statistics, progress.series
    for metric in EXECD_QUANTITIES:
        kept = statistics.get(metric)
        parts.append(
            _NO_STATISTICS if kept is None else _STATISTICS.pack(kept.count, kept.total, kept.min, kept.max, kept.last)
        )
        live = series.get(metric)
        parts.append(_NO_SERIES if live is None else _TIME.pack(live.last_ns))
    parts += map(_TIME.pack, progress.failed_in_a_row_ns)
    return b"".join(parts)


def apply_tally(progress: Progress, counts: bytes) -> None:
    """Set progress to what its tally says, which is as new or newer; raises ValueError when it is none."""
    try:
        layout, readings, missed, first_ns, last_ns, zeros = _HEAD.unpack_from(counts)
        if layout != _LAYOUT:
            raise ValueError(f"a tally of layout {layout}")
        at = _HEAD.size
        for metric in EXECD_QUANTITIES:
            count, *numbers = _STATISTICS.unpack_from(counts, at)
            (series_ns,) = _TIME.unpack_from(counts, at + _STATISTICS.size)
            at += _STATISTICS.size + _TIME.size
            if count:
                progress.statistics[metric] = RunningStatistics(count, *numbers)
            if series_ns != _NONE and metric in progress.series:
                progress.series[metric].last_ns = series_ns
        failed = [time_ns for (time_ns,) in _TIME.iter_unpack(counts[_FAILED_AT:])]
    except struct.error as error:
        raise ValueError("a tally of another size") from error
    progress.readings, progress.missed, progress.cpu_zeros = readings, missed, zeros
    progress.first_reading_ns = None if first_ns == _NONE else first_ns
    progress.last_reading_ns = None if last_ns == _NONE else last_ns
    progress.failed_in_a_row_ns = failed
