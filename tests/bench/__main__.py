"""`python -m bench`: what a reading costs the poller, against a bare loop and the obvious alternative."""

import argparse

from rich.console import Console

from bench.figures import Steady, Subject
from bench.report import steady_table
from bench.steady import Plan, measure_poller, measure_program

_ALTERNATIVE_UP_TO = 5000


def main() -> None:
    """Measure by turns and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, nargs="+", default=[100, 1000, 5000, 10_000])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--subjects", nargs="+", type=Subject, default=list(Subject))
    chosen = parser.parse_args()
    console = Console(width=200)
    turns: list[Steady] = []
    for sandboxes in chosen.sandboxes:
        plan = Plan(sandboxes=sandboxes, seconds=chosen.seconds)
        for _ in range(chosen.repeats):
            for subject in chosen.subjects:
                if subject is Subject.POLLER:
                    turns.append(measure_poller(plan)[0])
                elif subject is Subject.FLOOR or sandboxes <= _ALTERNATIVE_UP_TO:
                    turns.append(measure_program(subject, plan, uvloop=turns[-1].uvloop if turns else False))
                console.print(turns[-1])
    console.print(steady_table(turns))


if __name__ == "__main__":
    main()
