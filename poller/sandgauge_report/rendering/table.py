"""A report for a terminal: the four quantities side by side, and whose machine each reading describes."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
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

WIDE = 120
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
    "": 8,
    "Requested": 9,
    "Submitted": 9,
    "Allocated": 9,
    "p95": 9,
    "Max": 9,
    "Of limit": 8,
    "Scope": 7,
}
WIDE_COLUMNS = {
    "": 10,
    "Requested": 10,
    "Submitted": 10,
    "Allocated": 10,
    "Min": 9,
    "Mean": 9,
    "p95": 9,
    "Max": 9,
    "Of limit": 8,
    "Scope": 7,
    "Readings": 8,
    "Source": 16,
}
"""Headings and widths. One width for all rows, each of which has a grid of its own below its title."""

_MOST_FINDINGS = 10
_MOST_ADVICE = 20


def report_table(report: Report, width: int) -> RenderableType:
    """Return the whole report."""
    parts: list[RenderableType] = [rows_table(report.rows, width), "", legend()]
    parts += ["", *_findings(report.findings)]
    if report.by.is_of_alike:
        parts += ["", *_advice(report)]
    if report.note:
        parts += ["", Text(report.note, "yellow")]
    return Group(*parts)


def rows_table(rows: Sequence[Row], width: int) -> Group:
    """Return a title for each row of the report, and below it a line for each of its resources."""
    columns = WIDE_COLUMNS if width >= WIDE else _NARROW_COLUMNS
    headings = _grid(columns)
    headings.add_row(*(Text(heading, "bold") for heading in columns))
    parts: list[RenderableType] = [headings]
    for run_id, of_run in groupby(rows, key=lambda row: row.run_id):
        of_one_run = list(of_run)
        if of_one_run[0].by not in (By.RUN, By.PROVIDER):
            parts.append(Text.assemble("run ", (run_id or UNKNOWN, "bold")))
        for row in of_one_run:
            lines = _grid(columns)
            for _, cells in cells_of(row, is_wide=width >= WIDE):
                lines.add_row(*cells)
            parts += [title_of(row), lines, *_component_lines(row.only)]
    return Group(*parts)


def legend() -> Table:
    """Return what the words and marks of the table mean."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for word, meaning in _LEGEND.items():
        grid.add_row(Text(word, "dim"), Text(meaning, "dim"))
    return grid


def _grid(columns: dict[str, int]) -> Table:
    grid = Table.grid(padding=(0, 1 if columns is _NARROW_COLUMNS else 2, 0, 0))
    for width in columns.values():
        grid.add_column(min_width=width)
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
        yield Text(f"  no advice {count} time{'' if count == 1 else 's'}: {refusal}", "dim")


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
