"""`python -m bench`: what a reading costs the poller, against a bare loop that makes the same reads."""

import argparse
import statistics

from rich.console import Console
from rich.table import Table

from bench.steady import Steady, Subject, measure


def main() -> None:
    """Measure by turns and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, nargs="+", default=[100, 1000, 5000, 10_000])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--subjects", nargs="+", type=Subject, default=[Subject.POLLER, Subject.FLOOR])
    parser.add_argument("--uvloop", action="store_true", help="of the floor")
    chosen = parser.parse_args()
    table = Table("subject", "sandboxes", "reads", "CPU ms a read", "of a core", "RSS MiB", "fleet ms a read")
    console = Console()
    for sandboxes in chosen.sandboxes:
        turns: dict[Subject, list[Steady]] = {subject: [] for subject in chosen.subjects}
        for _ in range(chosen.repeats):
            for subject, done in turns.items():
                done.append(measure(subject, sandboxes, chosen.seconds, with_uvloop=chosen.uvloop))
                console.print(done[-1])
        for subject, done in turns.items():
            table.add_row(
                subject.value,
                str(sandboxes),
                str(done[0].reads),
                f"{statistics.median(one.cpu_ms_a_read for one in done):.3f}",
                f"{statistics.median(one.core_share for one in done):.1%}",
                f"{statistics.median(one.rss_mib for one in done):.0f}",
                f"{statistics.median(one.fleet_cpu_ms_a_read for one in done):.3f}",
            )
        if len(turns) > 1:
            poller, floor = (
                statistics.median(one.cpu_ms_a_read for one in turns[subject])
                for subject in (Subject.POLLER, Subject.FLOOR)
            )
            console.print(f"{sandboxes} sandboxes: poller / floor = {poller / floor:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
