"""A report as one HTML file that needs nothing from elsewhere and runs no script; light, dark, and on paper."""

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby

from sandgauge_report.findings import HEADLINES
from sandgauge_report.grouping import Row, Side
from sandgauge_report.merging.sandboxes import Sandbox
from sandgauge_report.rendering.cells import advice_cells, cells_of, label, title_of
from sandgauge_report.rendering.report import Report
from sandgauge_report.rendering.svg import Point, bars, memory_scatter, share_bar
from sandgauge_report.wording import memory, place
from sandgauge_schemas.names import Resource, SampleScope
from sandgauge_schemas.wording import number_of

MOST_ROWS = 2000
"""Rows and findings that are shown; a browser copes with these, and the other forms have them all."""

_STYLE = """\
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --soft: #5d6675; --line: #d5dae2; --track: #eef1f5;
  --most: #9dbfe8; --much: #2b6cb0; --bad: #b42318; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ef; --paper: #14181f; --soft: #9aa4b4; --line: #333b48;
  --track: #222833; --most: #3a5f8a; --much: #7ab2f0; --bad: #ff8a7a; --warn: #e5b567; } }
@media print { :root { color-scheme: light; --ink: #000; --paper: #fff; --soft: #444; --line: #bbb; --track: #eee;
  --most: #bbb; --much: #555; --bad: #900; --warn: #640; } tr, li, svg { break-inside: avoid; } }
body { margin: 2rem auto; max-width: 84rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; margin-bottom: .2rem; }
.soft { color: var(--soft); } .bad { color: var(--bad); } .warn { color: var(--warn); }
li, p { overflow-wrap: anywhere; } figure svg { max-width: 100%; height: auto; }
.plots { display: flex; flex-wrap: wrap; gap: 2rem; } figure { margin: 0; } figcaption { color: var(--soft); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem .2rem 0; text-align: left; white-space: nowrap; }
thead th { border-bottom: 2px solid var(--line); } tbody tr:first-child > * { border-top: 1px solid var(--line); }
td:first-child { padding-left: 1rem; }
svg { font: 11px system-ui, sans-serif; fill: var(--ink); vertical-align: middle; }
.track { fill: var(--track); } .highest { fill: var(--most); } .p95, circle { fill: var(--much); }
circle { fill-opacity: .6; } .grid { stroke: var(--line); } .limit { stroke: var(--bad); stroke-width: 2; }
.half { stroke: var(--soft); stroke-dasharray: 4 4; }
"""

_HEADINGS = (
    "",
    "Requested",
    "Submitted",
    "Allocated",
    "Min",
    "Mean",
    "p95",
    "Max",
    "Of limit",
    "Scope",
    "Readings",
    "Source",
)
_SUMMED_SIDES = {
    "requested": Side.REQUESTED,
    "submitted": Side.SUBMITTED_LIMITS,
    "allocated": Side.ALLOCATED_LIMITS,
}


def html_page(report: Report) -> str:
    """Return the whole file."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>Sandgauge report</title><style>\n{_STYLE}</style></head><body><main>",
            *_head(report),
            *_findings(report),
            *_plots(report),
            *_rows(report),
            *(_advice(report) if report.by.is_of_alike else ()),
            "</main></body></html>",
            "",
        ]
    )


def _head(report: Report) -> Iterator[str]:
    account = report.account
    yield "<h1>Sandgauge report</h1>"
    sandboxes, spans = number_of(report.sandbox_count, "sandbox"), number_of(account.spans, "span")
    yield f'<p class="soft">{sandboxes} by {report.by}; {spans} of '
    yield f"{escape(', '.join(account.files))}</p>"
    problems = [*account.unread, *map(str, account.bad_lines)]
    if (more := account.bad_line_count - len(account.bad_lines)) > 0:
        problems.append(f"and {number_of(more, 'more line')}")
    if problems:
        yield f'<p class="warn">Not in the report: {escape("; ".join(problems))}</p>'
    if report.note:
        yield f'<p class="warn">{escape(report.note)}</p>'


def _findings(report: Report) -> Iterator[str]:
    yield "<h2>Findings</h2>"
    if not report.findings:
        yield "<p>None.</p>"
    for kind, of_kind in groupby(report.findings, key=lambda finding: finding.kind):
        alike = list(of_kind)
        yield f'<h3 class="bad">{escape(HEADLINES[kind])} <span class="soft">({len(alike)})</span></h3>'
        yield f"<p>Cure: {escape(alike[0].cure)}.</p><ul>"
        for finding in alike[:MOST_ROWS]:
            yield f"<li>{escape(place(finding.sandbox))}: {escape(finding.evidence)}</li>"
        yield f"</ul>{_and_more(len(alike))}"
    if report.not_found:
        yield f'<p class="soft">Not found: {escape(", ".join(report.not_found))}.</p>'


def _plots(report: Report) -> Iterator[str]:
    sandboxes = [one for row in report.rows for one in row.sandboxes]
    yield "<h2>Memory</h2><div class=plots>"
    sums = list(_sums(report.rows))
    if sums:
        yield _figure(bars(sums, "memory of all sandboxes"), "Memory of all sandboxes together, where they state it.")
    points = list(_points(sandboxes))
    if points:
        caption = (
            "Highest reading over the limit, of sandboxes whose readings are their own. On the solid line they are "
            "equal; below the dashed one less than half was used."
        )
        yield _figure(memory_scatter(points[:MOST_ROWS]), caption)
    else:
        yield "<p>No sandbox has memory readings of its own beside a limit, so there is nothing to compare.</p>"
    yield "</div>"


def _figure(plot: str, caption: str) -> str:
    return f"<figure>{plot}<figcaption>{escape(caption)}</figcaption></figure>"


def _sums(rows: Iterable[Row]) -> Iterator[tuple[str, float, str]]:
    sums: Counter[str] = Counter()
    for row in rows:
        for word, side in _SUMMED_SIDES.items():
            if (total := row.total(side, Resource.MEMORY_MIB)) is not None:
                sums[word] += total.sum  # type: ignore[assignment]  # a Counter counts in fractions as well
    for word in _SUMMED_SIDES:
        if word in sums:
            yield word, sums[word], memory(sums[word])


def _points(sandboxes: Iterable[Sandbox]) -> Iterator[Point]:
    for one in sandboxes:
        series = one.preferred(Resource.MEMORY_MIB)
        if series is not None and series.key.scope is SampleScope.SANDBOX and (limit := one.limit_of(series)):
            yield Point(limit, series.max, f"{place(one)}: {memory(series.max)} of {memory(limit)}")


def _rows(report: Report) -> Iterator[str]:
    yield f"<h2>By {report.by}</h2>{_scrollable('Quantities of each row')}<table><thead><tr>"
    yield "".join(f'<th scope="col">{heading or "Resource"}</th>' for heading in _HEADINGS)
    yield "<th scope=col>Memory of limit</th></tr></thead>"
    for row in report.rows[:MOST_ROWS]:
        run = "" if row.run_id is None else f' <span class="soft">run {escape(row.run_id)}</span>'
        title = f"{escape(title_of(row).plain.replace('  ', ' · '))}{run}"
        yield f'<tbody><tr><th scope="rowgroup" colspan="{len(_HEADINGS) + 1}">{title}</th></tr>'
        for resource, cells in cells_of(row, is_wide=True):
            plain = [escape(cell if isinstance(cell, str) else cell.plain) for cell in cells]
            padded = plain[: len(_HEADINGS)] + [""] * (len(_HEADINGS) - len(plain))
            plot = _plot(row) if resource is Resource.MEMORY_MIB else ""
            yield f"<tr><td>{'</td><td>'.join(padded)}</td><td>{plot}</td></tr>"
        yield "</tbody>"
    yield f"</table></div>{_and_more(len(report.rows))}"


def _plot(row: Row) -> str:
    """Return the bar of the sandbox that came closest to its limit."""
    preferred = row.preferred(Resource.MEMORY_MIB)
    if preferred is None:
        return ""
    found = [
        (series.max / limit, series, limit)
        for one in row.sandboxes
        for series in one.series
        if series.key == preferred.key and (limit := one.limit_of(series)) is not None
    ]
    if not found:
        return ""
    _, series, limit = max(found, key=lambda item: item[0])
    return share_bar(series.p95, series.max, limit)


def _advice(report: Report) -> Iterator[str]:
    yield "<h2>What one sandbox could be reserved, by its own readings</h2>"
    if report.advice:
        headings = "".join(f"<th>{heading}</th>" for heading in ("For", "Resource", "Reserved", "Advised", "Rests on"))
        yield f"{_scrollable('Advice')}<table><thead><tr>{headings}</tr></thead><tbody>"
        for row, advice in report.advice[:MOST_ROWS]:
            cells = (label(row), *advice_cells(row, advice))
            yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        yield f"</tbody></table></div>{_and_more(len(report.advice))}"
    for refusal, count in report.refusals.most_common():
        yield f'<p class="soft">No advice {number_of(count, "time")}: {escape(refusal)}.</p>'


def _scrollable(name: str) -> str:
    """Open a part that may be wider than the window; the keyboard can scroll it too."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{name}">'


def _and_more(count: int) -> str:
    return f"<p>And {count - MOST_ROWS} more: <code>--format json</code> has them all.</p>" if count > MOST_ROWS else ""
