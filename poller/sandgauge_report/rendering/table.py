"""A report for a terminal: the four quantities side by side, and whose machine each reading describes."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sandgauge_report.findings import HEADLINES, Finding
from sandgauge_report.grouping import By, Row, Side
from sandgauge_report.merging.sandboxes import Creation, Sandbox
from sandgauge_report.rendering.report import Report
from sandgauge_report.sizing import Advice
from sandgauge_report.wording import (
    NAMES,
    NOT_SAID,
    UNKNOWN,
    amount,
    amounts,
    counted,
    duration,
    place,
    reading,
    short_id,
)
from sandgauge_schemas.names import Resource, SampleScope

WIDE = 120
"""Columns from which on there is room for all statistics."""

_LEGEND = {
    NOT_SAID: "not declared, or not created",
    UNKNOWN: "no record says it, or nothing tells whose machine was read; never guessed",
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

_STYLES = {SampleScope.SANDBOX: "green", SampleScope.NODE: "yellow", SampleScope.UNKNOWN: "dim"}
_SAMPLED = (Resource.CPU, Resource.MEMORY_MIB)
_SDK_DEFAULT = "default"
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


def label(row: Row) -> str:
    """Return what a row stands for, without its run."""
    match row.by:
        case By.TASK:
            return f"task {row.task or UNKNOWN}"
        case By.RUN:
            return f"run {row.run_id or UNKNOWN}"
        case By.PROVIDER:
            return f"provider {row.provider or UNKNOWN}"
        case _ if row.rollout_id is None and row.trace_id is not None:
            return f"rollout {UNKNOWN}, trace {short_id(row.trace_id)}"
        case _:
            return f"rollout {row.rollout_id or UNKNOWN}"


def title_of(row: Row) -> Text:
    """Return what the row stands for, and how its sandboxes ended."""
    title = Text(label(row), "bold")
    one = row.only
    if one is not None and one.creation is not Creation.CREATED:
        return title.append("  ").append(_not_created(one), "red" if one.creation is not Creation.PENDING else "")
    troubles = _troubles(row)
    if one is not None:
        lived = f" after {duration(one.lifetime_s)}" if one.lifetime_s is not None else ""
        end = f"end {UNKNOWN}" if one.end is None else f"{one.end}{lived}"
        title.append(f"  sandbox {short_id(one.sandbox_id)}  ", "default")
        title.append(", ".join([end, *troubles]), "red" if troubles else "default")
    else:
        title.append(f"  {_counts(row)}  ", "default")
        title.append(", ".join([*_ends(row), *troubles]), "red" if troubles else "default")
    return title.append(f"  {_readings(row)}", "dim")


def _not_created(one: Sandbox) -> str:
    number = f"{one.count} " if one.count > 1 else ""
    match one.creation:
        case Creation.FAILED:
            return f"{number}not created: {one.error_type or UNKNOWN}"
        case Creation.NO_START:
            return f"{number}not created: no start span"
        case _:
            return f"{number}asked for, not started yet"


def _troubles(row: Row) -> list[str]:
    words = {
        "out of memory": row.count(lambda one: one.oom_killed or bool(one.oom_kills)),
        "leaked": row.count(lambda one: one.leaked),
    }
    return [word if row.only else f"{word} {count}" for word, count in words.items() if count]


def _counts(row: Row) -> str:
    created = row.creations[Creation.CREATED]
    failed = row.creations[Creation.FAILED] + row.creations[Creation.NO_START]
    words = [f"{created} sandbox{'' if created == 1 else 'es'}"]
    if failed:
        words.append(f"{failed} not created")
    if row.creations[Creation.PENDING]:
        words.append(f"{row.creations[Creation.PENDING]} not started yet")
    return ", ".join(words)


def _ends(row: Row) -> list[str]:
    ends = sorted(row.ends.items(), key=lambda item: (-item[1], item[0] or ""))
    return [f"end {UNKNOWN} {count}" if end is None else f"{end} {count}" for end, count in ends]


def _readings(row: Row) -> str:
    count = UNKNOWN if row.readings is None else str(row.readings)
    failed = row.missed if row.missed is not None else row.failures.total() or None
    missed = f", {failed} missed" if failed else ""
    return f"readings {count}{missed}"


def cells_of(row: Row, *, is_wide: bool) -> Iterator[tuple[Resource, tuple[Text | str, ...]]]:
    """Yield the cells of CPU, of memory, and of any other resource that somebody speaks of."""
    for resource, name in NAMES.items():
        is_spoken_of = any(row.total(side, resource) is not None for side in Side)
        if resource in _SAMPLED or is_spoken_of:
            cells = (
                f"  {name}",
                _total(row, Side.REQUESTED, resource) or _not_requested(row),
                _submitted(row, resource),
                _total(row, Side.ALLOCATED_LIMITS, resource) or _missing(row),
                *(_sampled(row, resource, is_wide=is_wide) if resource in _SAMPLED else ()),
            )
            yield resource, cells


def _total(row: Row, side: Side, resource: Resource) -> str | None:
    total = row.total(side, resource)
    if total is None:
        return None
    return amount(resource, total.sum) + ("*" if total.known < total.of else "")


def _not_requested(row: Row) -> str:
    return NOT_SAID if all(one.requested is not None for one in row.sandboxes) else UNKNOWN


def _submitted(row: Row, resource: Resource) -> str:
    stated = _total(row, Side.SUBMITTED_LIMITS, resource) or _total(row, Side.SUBMITTED_REQUESTS, resource)
    if stated is not None:
        return stated
    if not row.creations[Creation.CREATED]:
        return NOT_SAID if row.creations[Creation.FAILED] else UNKNOWN
    if resource in _SAMPLED and row.count(lambda one: one.submission is not None and one.submission.sdk_default):
        return _SDK_DEFAULT
    return NOT_SAID if row.count(lambda one: one.submission is not None) else UNKNOWN


def _missing(row: Row) -> str:
    is_refused = not row.creations[Creation.CREATED] and not row.creations[Creation.PENDING]
    return NOT_SAID if is_refused else UNKNOWN


def _sampled(row: Row, resource: Resource, *, is_wide: bool) -> Iterator[Text]:
    """Yield the statistics of the readings that say most, their share of the limit, and whose machine they are of."""
    series = row.preferred(resource)
    if series is None:
        yield Text(_missing(row))
        return
    share = row.share_of_limit(series.key)
    numbers = (series.min, series.mean, series.p95, series.max) if is_wide else (series.p95, series.max)
    cells = [UNKNOWN if number is None else reading(series.key.quantity, number) for number in numbers]
    is_of_all = row.sandboxes_with(series.key) == row.creations[Creation.CREATED]
    scope = series.key.scope if is_of_all else f"{series.key.scope}*"
    cells += ["" if share is None else f"{share:.0%}".replace("%", " %"), scope]
    if is_wide:
        about = "" if series.is_exact else "~"
        cells += [UNKNOWN if series.readings is None else f"{about}{series.readings}", series.key.source or UNKNOWN]
    style = _STYLES[series.key.scope]
    yield from (Text(cell, style) for cell in cells)


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


def advice_cells(row: Row, advice: Advice) -> tuple[str, ...]:
    """Return the resource, what is reserved and what is advised of it, and the readings behind that."""
    series = row.preferred(advice.resource)
    number = 0 if series is None else row.sandboxes_with(series.key)
    sandboxes = "" if number == 1 else f", {number} sandboxes"
    return (
        NAMES[advice.resource],
        UNKNOWN if advice.reserved is None else amount(advice.resource, advice.reserved),
        UNKNOWN if advice.advised is None else amount(advice.resource, advice.advised),
        UNKNOWN if series is None else f"{counted(series)}{sandboxes}",
    )


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
