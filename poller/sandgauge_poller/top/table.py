"""What `top` shows: how poller and fleet are, leaks, and a table as wide as the terminal."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from sandgauge_poller.top.client import Look
from sandgauge_poller.top.words import (
    NONE,
    Row,
    age,
    cpu,
    cpu_plot,
    duration,
    is_late,
    lateness,
    limits,
    memory,
    memory_plot,
    size,
    state,
)
from sandgauge_schemas.wording import number_of, printable

_MOST_LEAKS = 5
_PLOT = 16
_TONES = {"leaked": "red", "killed for memory": "red", "paused": "yellow", "unmatched": "yellow", "active": "green"}
_SEVERITIES = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, and the width of the terminal from which on it is there."""

    title: str
    text: Callable[[Row, float], str | Text]
    wide: int = 0
    right: bool = False
    most: int | None = None


def _known(key: str) -> Callable[[Row, float], str]:
    return lambda row, _now: str(row.get(key, NONE))


def _state(row: Row, _now: float) -> Text:
    said = state(row)
    return _text(said, _TONES.get(said, "red" if row["state"] == "active" else "dim"))


def _late(row: Row, _now: float) -> Text:
    return _text(lateness(row), "red" if is_late(row) else "")


def _read(row: Row, now: float) -> str:
    at = row.get("reading", row.get("usage", {})).get("at")
    return NONE if at is None else duration(now - at)


def _text(said: str, style: str = "") -> Text:
    """Return what is shown; all of it is made here, since ids and more come from spans."""
    return Text(printable(said), style)


_COLUMNS = (
    _Column("SANDBOX", _known("sandbox_id"), most=36),
    _Column("DEPLOYMENT", _known("deployment"), wide=150, most=20),
    _Column("ROLLOUT", _known("rollout_id"), most=16),
    _Column("RUN", _known("run_id"), wide=120, most=24),
    _Column("STATE", _state, most=18),
    _Column("AGE", age, right=True),
    _Column("LIMITS", lambda row, _now: limits(row), wide=100, right=True),
    _Column("CPU", lambda row, _now: cpu(row), right=True),
    _Column("", lambda row, _now: cpu_plot(row, _PLOT), wide=180),
    _Column("MEMORY", lambda row, _now: memory(row), right=True),
    _Column("", lambda row, _now: memory_plot(row, _PLOT), wide=150),
    _Column("READ", _read, wide=120, right=True),
    _Column("LATE", _late, wide=100, right=True),
)


def head(look: Look) -> list[Text]:
    """Return how poller and fleet are, and what leaked, the most important first."""
    return list(_head(look.overview))


def table(look: Look, width: int) -> Table:
    """Return the rows, with as many columns as a terminal of that width takes."""
    total = look.overview["sandboxes"]["total"]
    found = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", caption_justify="left")
    columns = [column for column in _COLUMNS if width >= column.wide]
    for column in columns:
        justify: Any = "right" if column.right else "left"
        found.add_column(column.title, justify=justify, no_wrap=True, overflow="ellipsis", max_width=column.most)
    now = look.overview["now"]
    for row in look.sandboxes:
        cells = (column.text(row, now) for column in columns)
        found.add_row(*(cell if isinstance(cell, Text) else _text(cell) for cell in cells))
    if not look.sandboxes:
        found.caption = said = "no sandbox matches" if total else "no sandbox yet: one appears with its start span"
        found.min_width = min(width, len(said))
    elif len(look.sandboxes) < look.matched:
        found.caption = f"{len(look.sandboxes):,} of {look.matched:,}"
    return found


def _head(overview: Row) -> Iterator[Text]:
    sandboxes = overview["sandboxes"]
    states = [(count, key.replace("_", " ")) for key, count in sandboxes["by_state"].items() if count]
    waiting = sum(signal["bytes"] for signal in overview["outbox"].values())
    facts = [
        f"sandgauge {overview['version']}",
        f"up {duration(overview['now'] - overview['started_at'])}",
        number_of(sandboxes["total"], "sandbox") + (f" ({_counts(states)})" if states else ""),
        *(f"{sandboxes[key]:,} {key}" for key in ("failing", "late") if sandboxes[key]),
        f"{_last_full(overview.get('readings', {})):,.0f} readings/min",
        *([f"{size(waiting)} to be sent"] if waiting else []),
    ]
    yield _text(" · ".join(facts))
    for concern in overview["concerns"]:
        yield _text(f"! {concern['text']}; {concern['cure']}", _SEVERITIES[concern["severity"]])
    for row in overview["leaks"][:_MOST_LEAKS]:
        rollout = f", rollout {row['rollout_id']}" if "rollout_id" in row else ""
        old = age(row, overview["now"])
        yield _text(f"leaked: {row['sandbox_id']}, {old} old, {limits(row)}{rollout}", "red")
    if sandboxes["leaked"] > _MOST_LEAKS:
        yield _text(f"leaked: {sandboxes['leaked'] - _MOST_LEAKS:,} more; see them with --show leaked", "red")


def _counts(states: list[tuple[int, str]]) -> str:
    return ", ".join(f"{count:,} {name}" for count, name in states)


def _last_full(readings: Row) -> float:
    """Return the readings of the last full minute."""
    found: list[list[Any]] = [readings.get(key, []) for key in ("answered", "failed")]
    return sum(points[-2] or 0 for points in found if len(points) > 1)
