"""`python -m bench`: what the poller costs, measured beside a bare loop and the obvious alternative, in one run.

Prints tables of medians over repeats. `--save` keeps every turn in tests/bench/results, and writes the plot and the
tables of docs/performance.md from it.
"""

import argparse

from rich.console import Console

from bench import results as kept
from bench.document import write_document
from bench.figures import Subject
from bench.plot import write_plot
from bench.report import sections
from bench.suite import QUICK, Part, Suite


def main() -> None:
    """Measure and print."""
    default = Suite()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--sandboxes", type=int, nargs="+", default=default.sandboxes)
    parser.add_argument("--seconds", type=float, default=default.seconds, help="of each steady state that is watched")
    parser.add_argument("--repeats", type=int, default=default.repeats)
    parser.add_argument("--subjects", type=Subject, nargs="+", choices=list(Subject), default=default.subjects)
    parser.add_argument("--parts", type=Part, nargs="+", choices=list(Part), default=default.parts)
    parser.add_argument("--quick", action="store_true", help="half a minute with 200 sandboxes, whatever else is said")
    parser.add_argument("--save", action="store_true", help="keep the results and quote them in the documentation")
    chosen = parser.parse_args()
    suite = Suite(
        sandboxes=chosen.sandboxes,
        seconds=chosen.seconds,
        repeats=chosen.repeats,
        subjects=chosen.subjects,
        parts=chosen.parts,
    )
    console = Console(width=180)
    results = (QUICK if chosen.quick else suite).run(console.print)
    for section in sections(results):
        console.print(section.to_terminal())
    if chosen.save:
        kept.save(results, kept.POLLER)
        write_plot(results)
        write_document()


if __name__ == "__main__":
    main()
