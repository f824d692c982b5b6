"""Results as tables: the same rows on a terminal and in the documentation."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from bench.bars import Bar, bars
from bench.figures import Late, Minute, Steady, Subject
from bench.medians import grouped, median
from bench.results import LongResults, Results

_SHOWN_CALLS = 4

_Group = Sequence[Any]
"""Turns of one thing, measured several times."""


@dataclass(frozen=True, slots=True)
class Section:
    """One table."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_terminal(self) -> Table:
        """Return it for rich."""
        table = Table(*self.columns, title=self.title, title_justify="left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def to_markdown(self) -> str:
        """Return it for a document."""
        lines = (self.columns, ["---"] * len(self.columns), *self.rows)
        return "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(line)} |" for line in lines)])


def sections(results: Results) -> Iterator[Section]:
    """Yield the tables of what was measured; medians over turns."""
    if results.steady:
        yield _cost(results.steady)
    telling = [turn for turn in results.steady if turn.cadence_s is not None]
    if telling:
        yield _punctuality(telling)
    if results.hanging:
        yield _hanging(results)
    measured = [bar for bar in bars(results) if bar.measured is not None]
    if measured:
        yield Section("Bars", ("what", "bar", "measured", "met"), [_bar_row(bar) for bar in measured])
    others = [*_recovery(results), *_ingest(results)]
    if others:
        yield Section("Recovery and ingest", ("what", "figure"), others)


def long_section(results: LongResults) -> Section:
    """Return the table of a long run."""
    columns = (
        "minute",
        "sandboxes so far",
        "CPU ms a read",
        "of a core",
        "RSS MiB",
        "open files",
        "threads",
        "tasks",
        "cadence p99 s",
        "accepted p99 s",
        "health p99 / max s",
        "loop late p50 / p99 / max s",
        "held by it / by the process max s",
        "garbage max s",
        "waited for a core",
    )
    third = max(1, len(results.minutes) // 3)
    rows = [
        *(_long_row(str(one.minute), [one]) for one in results.minutes),
        _long_row("first third", results.minutes[:third]),
        _long_row("last third", results.minutes[-third:]),
    ]
    title = f"{results.sandboxes:,} sandboxes, {results.churn:.0%} of them replaced each minute"
    return Section(title, columns, rows)


def late_section(latest: Sequence[Late]) -> Section:
    """Return the table of the beats of a loop that its own process made latest."""
    columns = ("at s", "late s", "held by the loop s", "by the process s", "garbage s", "where the loop was seen")
    rows = [
        (
            f"{late.at_s:.1f}",
            *(f"{part:.3f}" for part in (late.lag_s, late.held_s, late.held_by_process_s, late.collected_s)),
            " > ".join(late.calls[-_SHOWN_CALLS:]),
        )
        for late in latest
    ]
    return Section("Beats of the loop that the poller itself made latest", columns, rows)


def _long_row(name: str, minutes: Sequence[Minute]) -> Sequence[str]:
    return (
        name,
        f"{minutes[-1].started:,}",
        _shown(median(minutes, "cpu_ms_a_read"), "{:.3f}"),
        _shown(median(minutes, "core_share"), "{:.1%}"),
        _shown(median(minutes, "rss_mib"), "{:.0f}"),
        _shown(median(minutes, "open_files"), "{:,.0f}"),
        _shown(median(minutes, "threads"), "{:.0f}"),
        _shown(median(minutes, "tasks"), "{:,.0f}"),
        _several(minutes, "cadence_s", "p99"),
        _several(minutes, "accepted_s", "p99"),
        _several(minutes, "health_s", "p99", "max", form="{:.3f}"),
        _several(minutes, "lag_s", "p50", "p99", "max", form="{:.3f}"),
        _joined(_several(minutes, held, "max", form="{:.3f}") for held in ("held_s", "held_by_process_s")),
        _several(minutes, "collected_s", "max", form="{:.3f}"),
        _shown(median(minutes, "waited_share"), "{:.1%}"),
    )


def _bar_row(bar: Bar) -> Sequence[str]:
    bound = f"{'at least' if bar.at_least else 'at most'} {bar.form.format(bar.bound)}"
    return (bar.what, bound, _shown(bar.measured, bar.form), "yes" if bar.is_met else "no")


def _cost(turns: Sequence[Steady]) -> Section:
    groups = grouped(turns)
    columns = (
        "sandboxes",
        "subject",
        "CPU ms a read",
        "times the floor",
        "of a core",
        "RSS MiB",
        "kB a sandbox",
        "SQLite",
        "delivery",
        "bytes a reading",
        "simulator's ms a read",
        "waited for a core",
    )
    rows = []
    for (sandboxes, subject), group in groups.items():
        cost = median(group, "cpu_ms_a_read")
        floor = median(groups.get((sandboxes, Subject.FLOOR), ()), "cpu_ms_a_read")
        rows.append(
            (
                f"{sandboxes:,}",
                f"{subject.value}{' (uvloop)' if group[0].uvloop else ''}",
                _shown(cost, "{:.3f}"),
                _shown(cost / floor if cost and floor else None, "{:.2f}"),
                _shown(median(group, "core_share"), "{:.1%}"),
                _shown(median(group, "rss_mib"), "{:.0f}"),
                _shown(median(group, "rss_kb_a_sandbox"), "{:.1f}"),
                _shown(median(group, "writer_share"), "{:.0%}"),
                _shown(median(group, "delivery_share"), "{:.0%}"),
                _shown(median(group, "bytes_a_reading"), "{:.0f}"),
                _shown(median(group, "fleet_cpu_ms_a_read"), "{:.3f}"),
                _shown(median(group, "waited_share"), "{:.1%}"),
            )
        )
    return Section("What a reading costs", columns, rows)


def _punctuality(turns: Sequence[Steady]) -> Section:
    columns = (
        "sandboxes",
        "subject",
        "cadence p50 / p99 / max s",
        "ticks missed",
        "accepted p50 / p99 s",
        "first sample p50 / max s",
    )
    rows = [
        (
            f"{sandboxes:,}",
            subject.value,
            _several(group, "cadence_s", "p50", "p99", "max"),
            _shown(median(group, "missed_share"), "{:.2%}"),
            _several(group, "accepted_s", "p50", "p99"),
            _several(group, "first_sample_s", "p50", "max"),
        )
        for (sandboxes, subject), group in grouped(turns).items()
    ]
    return Section("How punctual readings are, and when the Collector has them", columns, rows)


def _hanging(results: Results) -> Section:
    columns = (
        "sandboxes",
        "that never answer",
        "cadence of the others p50 / p99 / max s",
        "ticks missed",
        "a hanging read p50 / max s",
    )
    sizes = {turn.sandboxes for turn in results.hanging}
    all_well = [turn for turn in results.steady if turn.subject is Subject.POLLER and turn.sandboxes in sizes]
    rows = [
        (
            f"{group[0].sandboxes:,}",
            f"{group[0].hanging_share:.0%}",
            _several(group, "cadence_s", "p50", "p99", "max"),
            _shown(median(group, "missed_share"), "{:.2%}"),
            _several(group, "hang_s", "p50", "max"),
        )
        for turns in (all_well, results.hanging)
        for group in grouped(turns).values()
    ]
    return Section("Daemons that never answer", columns, rows)


def _recovery(results: Results) -> Iterator[tuple[str, str]]:
    if results.recovery:
        sandboxes = results.recovery[0].sandboxes
        ready, read = median(results.recovery, "ready_s"), median(results.recovery, "all_read_s")
        yield (
            f"kill -9 with {sandboxes:,} sandboxes, and a new start",
            f"takes spans after {ready:.1f} s, has read all again after {read:.1f} s",
        )


def _ingest(results: Results) -> Iterator[tuple[str, str]]:
    floods: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for flood in results.floods:
        floods[flood.what, flood.encoding].append(flood)
    for (what, encoding), group in floods.items():
        rate, cost = median(group, "spans_a_second"), median(group, "cpu_us_a_span")
        yield f"flood of {what} spans, {encoding}, gzip", f"{rate:,.0f} spans/s; {cost:.1f} µs of CPU a span"
    if results.requests:
        rate, cost = median(results.requests, "requests_a_second"), median(results.requests, "cpu_ms_a_request")
        after = _several(results.requests, "answer_s", "p50", "p99", form="{:.3f}")
        figure = f"{rate:,.0f} a second, answered after the commit, p50 / p99 {after} s; {cost:.2f} ms of CPU a request"
        yield f"requests of one start span each, {results.requests[0].connections} connections", figure


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _joined(parts: Iterable[str]) -> str:
    return " / ".join(part for part in parts if part)


def _several(group: _Group, figure: str, *ranks: str, form: str = "{:.2f}") -> str:
    shown = [_shown(median(group, f"{figure}.{rank}"), form) for rank in ranks]
    return " / ".join(shown) if all(shown) else ""
