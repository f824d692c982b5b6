"""A report for a terminal: the four quantities side by side, and whose machine each reading describes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sandgauge_report.findings import HEADLINES, Finding
from sandgauge_report.grouping import By, Row
from sandgauge_report.merging.sandboxes import Sandbox
from sandgauge_report.rendering.cells import advice_cells, cells_of, label, title_of
from sandgauge_report.rendering.report import Report
from sandgauge_report.wording import (
    NOT_SAID,
    UNKNOWN,
    amounts,
    place,
)
from sandgauge_schemas.wording import number_of

if TYPE_CHECKING:
    from rich.style import StyleType

_WIDE = 120
"""Columns from which on there is room for all statistics."""

_LEGEND = {
    NOT_SAID: "not declared, or not created",
    UNKNOWN: "no record says it, or nothing tells whose machine was read; never guessed",
    "default": "left to the SDK, which fills in a shape of its own",
    "*": "not of all sandboxes: the others state nothing, or something else",
    "p95, max": "95th percentile and highest reading; of CPUs in cores, or in % of those that the daemon sees",
    "node": "the readings are of the whole machine: no limit is held against them",
}

_NARROW_COLUMNS = {
    "": 9,
    "Requested": 10,
    "Submitted": 10,
    "Allocated": 10,
    "p95": 10,
    "Max": 10,
    "Of limit": 9,
    "Scope": 8,
}
_WIDE_COLUMNS = {
    "": 12,
    "Requested": 12,
    "Submitted": 12,
    "Allocated": 12,
    "Min": 11,
    "Mean": 11,
    "p95": 11,
    "Max": 11,
    "Of limit": 10,
    "Scope": 9,
    "Readings": 10,
    "Source": 18,
}
"""Headings, and widths with the gap behind them."""

_GAP = 2
"""Of the wide columns; the last needs none."""

_MOST_FINDINGS = 10
_MOST_ADVICE = 20


def print_table(report: Report, console: Console) -> None:
    """Print the whole report, each row as it is made."""
    for part in _parts(report, console.width):
        console.print(part)


def _parts(report: Report, width: int) -> Iterator[RenderableType]:
    yield from _rows(report.rows, width)
    yield ""
    yield legend()
    yield ""
    yield from _findings(report.findings)
    if report.not_found:
        yield Text(f"  not found: {', '.join(report.not_found)}", "dim")
    if report.by.is_of_alike:
        yield ""
        yield from _advice(report)
    if report.note:
        yield ""
        yield Text(report.note, "yellow")


def _rows(rows: Sequence[Row], width: int) -> Iterator[Text]:
    """Yield a title for each row of the report, and below it a line for each of its resources."""
    columns = _columns(width)
    yield _line([Text(heading, "bold") for heading in columns], columns)
    for run_id, of_run in groupby(rows, key=lambda row: row.run_id):
        for index, row in enumerate(of_run):
            if index == 0 and row.by not in (By.RUN, By.PROVIDER):
                yield Text.assemble("run ", (run_id or UNKNOWN, "bold"))
            lines = [_line(cells, columns) for _, cells in cells_of(row, is_wide=width >= _WIDE)]
            yield Text("\n").join([title_of(row), *lines, *_component_lines(row.only)])


def _columns(width: int) -> Mapping[str, int]:
    """Return the columns that there is room for."""
    if width < _WIDE:
        return _NARROW_COLUMNS
    columns = dict(_WIDE_COLUMNS)
    while sum(columns.values()) - _GAP > width:
        columns.popitem()
    return columns


def _line(cells: Iterable[Text | str], columns: Mapping[str, int]) -> Text:
    """Return cells below those of other lines; one that is wider than its column only moves the next."""
    runs: list[tuple[str, StyleType]] = []
    length = begin = 0
    for cell, width in zip(cells, columns.values(), strict=False):
        plain, style = (cell, "") if isinstance(cell, str) else (cell.plain, cell.style)
        gap = max(begin - length, 1 if begin else 0)
        length += gap + cell_len(plain)
        begin += width
        if runs and runs[-1][1] == style:  # one run costs rich as much as another
            runs[-1] = (f"{runs[-1][0]}{' ' * gap}{plain}", style)
        else:
            runs.append((f"{' ' * gap}{plain}", style))
    return Text.assemble(*runs)


def legend() -> Table:
    """Return what the words and marks of the table mean."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for word, meaning in _LEGEND.items():
        grid.add_row(Text(word, "dim"), Text(meaning, "dim"))
    return grid


def _component_lines(one: Sandbox | None) -> Iterator[Text]:
    """Yield what is not in the sums: each of several components, requests beside limits, and declared sidecars."""
    if one is None:
        return
    components = () if one.allocation is None else one.allocation.components
    is_plain = len(components) == 1 and (not components[0].requests or components[0].requests == components[0].limits)
    for component in () if is_plain else components:
        line = f"    component {component.name or UNKNOWN}: requests {amounts(component.requests)}"
        yield Text(f"{line}; limits {amounts(component.limits)}", "dim")
    for sidecar in one.sidecars:
        yield Text(f"    sidecar {sidecar.name or UNKNOWN}: requested {amounts(sidecar.resources)}", "dim")


def _advice(report: Report) -> Iterator[RenderableType]:
    yield Text("What one sandbox could be reserved, by its own readings", "bold")
    grid = Table.grid(padding=(0, 2, 0, 0))
    lines = report.advice
    if lines:
        grid.add_row(*(Text(heading, "bold") for heading in ("", "", "Reserved", "Advised", "Rests on")))
    for row, advice in lines[:_MOST_ADVICE]:
        grid.add_row(f"  {label(row)}", *advice_cells(row, advice))
    if lines:
        yield grid
    if len(lines) > _MOST_ADVICE:
        yield Text(f"  and {len(lines) - _MOST_ADVICE} more: --format json", "dim")
    for refusal, count in report.refusals.most_common():
        yield Text(f"  no advice {number_of(count, 'time')}: {refusal}", "dim")


def _findings(findings: Sequence[Finding]) -> Iterator[RenderableType]:
    if not findings:
        yield Text("No findings.", "bold")
        return
    yield Text("Findings", "bold")
    for kind, of_kind in groupby(findings, key=lambda finding: finding.kind):
        alike = list(of_kind)
        yield Text.assemble((f"  {HEADLINES[kind]}", "red"), (f"  {kind}, {len(alike)}", "dim"))
        for finding in alike[:_MOST_FINDINGS]:
            yield _indented(Text(f"{place(finding.sandbox)}: {finding.evidence}"))
        if len(alike) > _MOST_FINDINGS:
            yield _indented(Text(f"and {len(alike) - _MOST_FINDINGS} more: --format json", "dim"))
        yield _indented(Text(f"cure: {alike[0].cure}", "italic"))


def _indented(text: Text) -> Padding:
    """Return a text that keeps its distance from the left in every line that it is broken into."""
    return Padding(text, (0, 0, 0, 4))
