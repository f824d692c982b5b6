"""Figures as a table for people."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence

from rich.table import Table

from bench.figures import Steady, Subject

_COLUMNS = (
    "sandboxes",
    "subject",
    "CPU ms a read",
    "x floor",
    "of a core",
    "RSS MiB",
    "kB a sandbox",
    "cadence p50/p99/max s",
    "missed",
    "accepted p50/p99 s",
    "bytes a reading",
    "SQLite",
    "delivery",
    "fleet ms a read",
)


def steady_table(turns: Iterable[Steady]) -> Table:
    """Return medians over the turns of each subject and size."""
    groups: dict[tuple[int, Subject], list[Steady]] = defaultdict(list)
    for turn in turns:
        groups[turn.sandboxes, turn.subject].append(turn)
    table = Table(*_COLUMNS)
    for (sandboxes, subject), done in groups.items():
        cost = median(one.cpu_ms_a_read for one in done)
        floor = [one.cpu_ms_a_read for one in groups.get((sandboxes, Subject.FLOOR), ())]
        table.add_row(
            f"{sandboxes:,}",
            subject.value,
            f"{cost:.3f}",
            f"{cost / statistics.median(floor):.2f}" if floor and cost is not None else "",
            f"{median(one.core_share for one in done):.1%}",
            f"{median(one.rss_mib for one in done):.0f}",
            _shown(done, "rss_kb_a_sandbox", "{:.1f}"),
            _quantiles(done, "cadence_s", "p50", "p99", "max"),
            _shown(done, "missed_share", "{:.2%}"),
            _quantiles(done, "accepted_s", "p50", "p99"),
            _shown(done, "bytes_a_reading", "{:.0f}"),
            _shown(done, "writer_share", "{:.0%}"),
            _shown(done, "delivery_share", "{:.0%}"),
            f"{median(one.fleet_cpu_ms_a_read for one in done):.3f}",
        )
    return table


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of those that are there; None without any."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None


def _shown(done: Sequence[Steady], figure: str, form: str) -> str:
    value = median(getattr(one, figure) for one in done)
    return "" if value is None else form.format(value)


def _quantiles(done: Sequence[Steady], figure: str, *ranks: str) -> str:
    there = [quantiles for one in done if (quantiles := getattr(one, figure)) is not None]
    return " / ".join(f"{statistics.median(getattr(one, rank) for one in there):.2f}" for rank in ranks if there)
