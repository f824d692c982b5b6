"""`python -m bench.scaling`: write the tables of docs/scaling.md again, computed from the saved results."""

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.cost import LIFE_S, Cost
from bench.results import LongResults, Results, load, load_long
from sandgauge_poller.config import Config

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"

FLEETS = (10_000, 100_000, 1_000_000)
INTERVALS_S = (10, 30, 60)
# What the documentation says elsewhere, as measured.
READ_S = 1.0  # execd's own wait
QUESTIONS_A_LIFE = 4  # its endpoint, its allocation, and twice its state
SPANS_A_LIFE = 4  # request, start, stop, rollout
GAUGES, QUANTITIES = 4, 10  # series of a sandbox: of its readings, and of the overlay of that name
HEAD_S = 3 * 3600  # how long Prometheus keeps a series that has ended in memory
SERIES_BYTES = 2500


def poller_table(cost: Cost) -> str:
    """Return what the pollers take together, fleet by fleet and interval by interval."""
    rows = []
    for fleet in FLEETS:
        for interval in INTERVALS_S:
            pollers = cost.pollers(fleet, interval)
            each = cost.at(fleet / interval / pollers)
            memory = pollers * cost.idle_mib / 1024 + fleet * cost.sandbox_kb * 1000 / 2**30
            rows.append(
                (
                    f"{fleet:,}",
                    f"{interval} s",
                    _shown(fleet / interval),
                    _shown(pollers * cost.core_share(fleet / pollers, interval)),
                    str(pollers),
                    f"{_shown(memory)} GiB",
                    f"{_shown(pollers * each.sent_bytes / 1e6)} MB/s",
                    f"{_shown(pollers * each.stored_bytes / 1e6)} MB/s",
                    f"{fleet:,}",
                )
            )
    heads = (
        "sandboxes",
        "every",
        "readings a second",
        "cores",
        "pollers",
        "memory",
        "to the Collector",
        "to disks",
        "open files",
    )
    return _table(heads, rows)


def others_table() -> str:
    """Return what a fleet asks of all others at the default interval, fleet by fleet."""
    interval = Config().sampling.collection_interval
    refresh = Config().allocation.refresh_interval
    rows: list[tuple[str, ...]] = []

    def row(what: str, asked: str, each: Iterable[float], unit: str = "") -> None:
        rows.append((what, asked, *(f"{_shown(value)}{unit}" for value in each)))

    starts = [fleet / LIFE_S for fleet in FLEETS]
    row("readings in flight", f"N · {READ_S:g} s / {interval:g} s", (fleet * READ_S / interval for fleet in FLEETS))
    row(
        "questions to control planes, a second",
        f"N · ({QUESTIONS_A_LIFE} / life + 1 / {refresh:g} s)",
        (fleet * (QUESTIONS_A_LIFE / LIFE_S + 1 / refresh) for fleet in FLEETS),
    )
    row("sandboxes that start, a second", "N / life", starts)
    row("lifecycle spans, a second", f"{SPANS_A_LIFE} · N / life", (SPANS_A_LIFE * each for each in starts))
    row("spans to the traces backend, a second", f"N / {interval:g} s", (fleet / interval for fleet in FLEETS))
    row(
        "points to the metrics backend, a second",
        f"{GAUGES} · N / {interval:g} s",
        (GAUGES * fleet / interval for fleet in FLEETS),
    )
    series = [each * (GAUGES + QUANTITIES) * HEAD_S for each in starts]
    row("series in Prometheus's memory", f"{GAUGES + QUANTITIES} · N / life · {HEAD_S // 3600} h", series)
    row(
        "… and that memory",
        f"{SERIES_BYTES / 1000:g} kB each",
        (each * SERIES_BYTES / 2**30 for each in series),
        " GiB",
    )
    return _table(("what", "asked for", *(f"{fleet:,}" for fleet in FLEETS)), rows)


def summary(cost: Cost, results: Results) -> str:
    """Return in a few sentences what the tables start from."""
    requests = statistics.median(one.requests_a_second for one in results.requests)
    flood = statistics.median(
        one.spans_a_second for one in results.floods if (one.what, one.encoding) == ("lifecycle", "protobuf")
    )
    most = cost.loads[-1].reads
    measured = "; ".join(
        f"{_shown(load.core_share / load.reads * 1000)} ms of CPU, {_shown(load.sent_bytes / load.reads)} bytes to the "
        f"Collector and {_shown(load.stored_bytes / load.reads)} to the disk at {_shown(load.reads)} readings a second"
        for load in cost.loads
        if load.reads >= most / 10
    )
    return (
        f"As measured ([performance.md](performance.md)), a reading with all its telemetry takes {measured}: few cost "
        f"more each than many. A sandbox takes {cost.sandbox_kb:.0f} kB of memory, above {cost.idle_mib:.0f} MiB, and "
        f"{_shown(cost.life_cpu_ms)} ms of CPU in its life beside its readings. Lifecycle spans come in at "
        f"{_shown(requests)} a second where each is a request of its own, and at {_shown(flood)} where a request holds "
        "500."
    )


def with_figures(text: str, results: Results, long: LongResults) -> str:
    """Return the page with what stands between its marks computed again."""
    cost = Cost.of(results, long)
    parts = {"summary": summary(cost, results), "pollers": poller_table(cost), "others": others_table()}
    for name, content in parts.items():
        begin, end = f"<!-- begin {name} by `make bench` -->\n", f"<!-- end {name} -->\n"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{PAGE.name}: {begin.strip()} and {end.strip()} are not both there; write both")
        text = f"{before}{begin}{content}\n{end}{after}"
    return text


def write_page() -> None:
    """Compute the figures of the page from the saved results."""
    PAGE.write_text(with_figures(PAGE.read_text(), load(), load_long()))


def _shown(value: float) -> str:
    """Return two digits that count, which is as well as such a sum is known."""
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.{max(0, 1 - math.floor(math.log10(rounded)))}f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    write_page()
