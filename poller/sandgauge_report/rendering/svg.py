"""Plots as inline SVG: no script, colours by the page's own style sheet, and a text for who cannot see them."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from sandgauge_schemas.wording import number_of

_BAR_WIDTH, _BAR_HEIGHT = 140, 14
_MOST_SHARE = 1.2
"""How much of its limit a bar can show."""

_SIDE, _LEFT, _BOTTOM = 360, 62, 34
_TICKS_MIB = (64, 256, 1024, 4096, 16384, 65536, 262144)
_LINE_HEIGHT, _LABEL_WIDTH, _LINE_WIDTH = 24, 90, 420


class Point(NamedTuple):
    """One sandbox: limit and highest reading in MiB, and what it is called."""

    limit: float
    used: float
    name: str


def share_bar(p95: float | None, highest: float, limit: float) -> str:
    """Return a bar as long as the highest reading, darker up to the 95th percentile; a line stands for the limit."""

    def x(value: float) -> float:
        return round(min(value / limit, _MOST_SHARE) / _MOST_SHARE * _BAR_WIDTH, 1)

    text = f"highest reading {highest / limit:.0%} of the limit"
    parts = [f'<rect class="track" width="{_BAR_WIDTH}" height="{_BAR_HEIGHT}" rx="2"/>']
    parts.append(f'<rect class="highest" width="{x(highest)}" height="{_BAR_HEIGHT}" rx="2"/>')
    if p95 is not None:
        parts.append(f'<rect class="p95" y="4" width="{x(p95)}" height="{_BAR_HEIGHT - 8}"/>')
    parts.append(f'<line class="limit" x1="{x(limit)}" x2="{x(limit)}" y1="0" y2="{_BAR_HEIGHT}"/>')
    return _svg(_BAR_WIDTH, _BAR_HEIGHT, text, parts)


def bars(lines: Sequence[tuple[str, float, str]], text: str) -> str:
    """Return a bar for each label, value and wording of the value."""
    most = max((value for _, value, _ in lines), default=0) or 1
    parts = []
    room = _LINE_WIDTH - _LABEL_WIDTH - 90
    for index, (label, value, wording) in enumerate(lines):
        y, width = index * _LINE_HEIGHT, round(value / most * room, 1)
        middle = y + _LINE_HEIGHT / 2 + 4
        parts += [
            f'<text x="{_LABEL_WIDTH - 8}" y="{middle}" text-anchor="end">{escape(label)}</text>',
            f'<rect class="p95" x="{_LABEL_WIDTH}" y="{y + 4}" width="{width}" height="{_LINE_HEIGHT - 8}"/>',
            f'<text x="{_LABEL_WIDTH + width + 6}" y="{middle}">{escape(wording)}</text>',
        ]
    return _svg(_LINE_WIDTH, len(lines) * _LINE_HEIGHT, text, parts)


def memory_scatter(points: Iterable[Point]) -> str:
    """Return limit against highest reading, both logarithmic; a line where they are equal, and one at the half."""
    shown = [point for point in points if point.limit > 0 and point.used > 0]
    values = [value for point in shown for value in (point.limit, point.used)]
    low, high = math.log(min(values) / 1.5), math.log(max(values) * 1.5)

    def along(value: float) -> float:
        return (math.log(value) - low) / (high - low) * _SIDE

    def x(value: float) -> float:
        return round(_LEFT + along(value), 1)

    def y(value: float) -> float:
        return round(_SIDE - along(value), 1)

    lowest, highest = math.exp(low), math.exp(high)
    parts = [f'<rect class="track" x="{_LEFT}" width="{_SIDE}" height="{_SIDE}"/>']
    for tick in (tick for tick in _TICKS_MIB if lowest < tick < highest):
        word = f"{tick} MiB" if tick < 1024 else f"{tick // 1024} GiB"  # noqa: PLR2004 - MiB of a GiB
        parts += [
            f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="0" y2="{_SIDE}"/>',
            f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _SIDE}" y1="{y(tick)}" y2="{y(tick)}"/>',
            f'<text x="{x(tick)}" y="{_SIDE + 14}" text-anchor="middle">{word}</text>',
            f'<text x="{_LEFT - 6}" y="{y(tick) + 4}" text-anchor="end">{word}</text>',
        ]
    parts.append(f'<line class="limit" x1="{x(lowest)}" y1="{y(lowest)}" x2="{x(highest)}" y2="{y(highest)}"/>')
    if highest / lowest > 2:  # noqa: PLR2004 - else the line of the half has no room
        parts.append(
            f'<line class="half" x1="{x(2 * lowest)}" y1="{y(lowest)}" x2="{x(highest)}" y2="{y(highest / 2)}"/>'
        )
    parts += [
        f'<circle cx="{x(point.limit)}" cy="{y(point.used)}" r="3.5"><title>{escape(point.name)}</title></circle>'
        for point in shown
    ]
    parts.append(f'<text x="{_LEFT + _SIDE / 2}" y="{_SIDE + 30}" text-anchor="middle">memory limit</text>')
    text = f"memory limit against highest reading of {number_of(len(shown), 'sandbox')}"
    return _svg(_LEFT + _SIDE + 4, _SIDE + _BOTTOM, text, parts)


def _svg(width: float, height: float, text: str, parts: Iterable[str]) -> str:
    body = "".join(parts)
    return (
        f'<svg role="img" aria-label="{escape(text)}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"<title>{escape(text)}</title>{body}</svg>"
    )
