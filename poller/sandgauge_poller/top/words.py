"""Rows of the JSON in words for a terminal. What is not known is a dash, never zero."""

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

NONE = "-"
_BLOCKS = "▁▂▃▄▅▆▇█"
_MIB_PER_GIB = 1024
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_READING_S = 2.5
"""A reading takes up to two seconds by itself."""


def duration(seconds: float) -> str:
    """Return seconds as the largest two units that count."""
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def mebibytes(value: float) -> str:
    """Return MiB, as GiB where there are many."""
    return f"{_digits(value / _MIB_PER_GIB)} GiB" if value >= _MIB_PER_GIB else f"{_digits(value)} MiB"


def size(count: float) -> str:
    """Return a number of bytes."""
    return mebibytes(count / 2**20) if count >= 2**20 else f"{count / 1024:.0f} KiB"


def age(row: Row, now: float) -> str:
    """Return how long it lives, or lived."""
    started = row.get("started_at")
    return NONE if started is None else duration(row.get("ended_at", now) - started)


def state(row: Row) -> str:
    """Return what wants to be known first of how it stands."""
    if row["leaked"]:
        return "leaked"
    if row.get("oom_killed"):
        return "killed for memory"
    failure = row.get("reading", row.get("usage", {})).get("error_type")
    if failure is not None and row["state"] == "active":
        return str(failure).replace("_", " ")
    return str(row["state"]).replace("_", " ")


def lateness(row: Row) -> str:
    """Return by how much its reading is late."""
    late_s = row.get("lateness_s")
    if late_s is None:
        return NONE
    return "on time" if late_s < _READING_S else duration(late_s)


def is_late(row: Row) -> bool:
    """Tell whether a whole reading is missing."""
    late_s = row.get("lateness_s")
    return late_s is not None and late_s > row["interval_s"]


def limits(row: Row) -> str:
    """Return the limits in force."""
    amounts = _limits(row)
    parts = []
    if "cpu" in amounts:
        parts.append(f"{_digits(amounts['cpu'])} CPU")
    if "memory_mib" in amounts:
        parts.append(mebibytes(amounts["memory_mib"]))
    return ", ".join(parts) or NONE


def cpu(row: Row) -> str:
    """Return the CPU in use, and whose that is: of its usage source where there is one."""
    reading, usage = row.get("reading", {}), row.get("usage", {})
    if "cpu_used_cores" in usage:
        cores = _digits(usage["cpu_used_cores"])
        return f"{cores} core" if cores == "1" else f"{cores} cores"
    if "cpu_used_percentage" in reading:
        return f"{reading['cpu_used_percentage']:.0f} % {_scope(reading.get('cpu_scope'))}"
    return NONE


def memory(row: Row) -> str:
    """Return the memory in use, and whose that is."""
    reading, usage = row.get("reading", {}), row.get("usage", {})
    if "memory_working_set_mib" in usage:
        return f"{mebibytes(usage['memory_working_set_mib'])} sandbox"
    if "memory_used_mib" in reading:
        return f"{mebibytes(reading['memory_used_mib'])} {_scope(reading.get('memory_scope'))}"
    return NONE


def memory_plot(row: Row, width: int) -> str:
    """Return the newest minutes of its memory, as high as what there is of it."""
    plot, reading = row.get("plot", {}), row.get("reading", {})
    if "memory_working_set_mib" in plot:
        return _blocks(plot["memory_working_set_mib"], _limits(row).get("memory_mib"), width)
    return _blocks(plot.get("memory_used_mib", ()), reading.get("memory_total_mib"), width)


def cpu_plot(row: Row, width: int) -> str:
    """Return the newest minutes of its CPU, as high as what there is of it."""
    plot = row.get("plot", {})
    if "cpu_used_cores" in plot:
        return _blocks(plot["cpu_used_cores"], _limits(row).get("cpu"), width)
    return _blocks(plot.get("cpu_used_percentage", ()), 100.0, width)


def _limits(row: Row) -> Mapping[str, float]:
    allocation = row.get("allocation", {})
    main = allocation.get("main_component")
    components = allocation.get("components", ())
    return next((component["limits"] for component in components if component["name"] == main), {})


def _scope(scope: str | None) -> str:
    return scope or "unknown"


def _blocks(points: Sequence[float | None], most: float | None, width: int) -> str:
    shown = points[-width:]
    highest = most or max((point for point in shown if point is not None), default=0.0)
    return "".join(" " if point is None else _block(point, highest) for point in shown).rjust(width)


def _block(point: float, most: float) -> str:
    part = point / most if most else 0.0
    return _BLOCKS[min(len(_BLOCKS) - 1, int(part * len(_BLOCKS)))]


def _digits(value: float) -> str:
    """Return a number with three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  # three digits
