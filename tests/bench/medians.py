"""Medians over turns of one thing."""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from bench.figures import Steady, Subject


def median(turns: Iterable[Any], figure: str) -> float | None:
    """Return the median of a figure, `name` or `name.rank`, over the turns that have it; None where none has."""
    values = [value for turn in turns if (value := _figure(turn, figure)) is not None]
    return statistics.median(values) if values else None


def grouped(turns: Iterable[Steady]) -> dict[tuple[int, Subject], list[Steady]]:
    """Return turns by size and subject, in their order."""
    groups: dict[tuple[int, Subject], list[Steady]] = defaultdict(list)
    for turn in turns:
        groups[turn.sandboxes, turn.subject].append(turn)
    return groups


def _figure(turn: Any, figure: str) -> float | None:
    name, _, rank = figure.partition(".")
    value = getattr(turn, name)
    found: float | None = getattr(value, rank) if rank and value is not None else value
    return found
