"""`python -m bench.long`: whether a poller stays the same while sandboxes come and go, minute by minute.

Prints what each minute took, and exits with 1 where memory, files, threads or tasks grew, where a series outlived its
sandbox, or where a record broke the telemetry contract. Times are printed and not judged: the machine is in them.
"""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console

from bench import results as kept
from bench.churn import Churn
from bench.document import write_document
from bench.flatness import growths
from bench.lateness import Heart, in_words
from bench.machine import Machine
from bench.minutes import LongRun, minutes_of
from bench.prober import answers
from bench.processes import Program, cores
from bench.report import late_section, long_section
from bench.results import LongResults
from bench.scene import Scene, WatchedPoller, poller, scene, until_all_read
from bench.seen import Seen
from support.delivered import GAUGES

_LINGER_S = 5.0
"""For what was read last to reach the Collector."""
_REQUESTS_PER_SECOND = 200
"""Questions to the control plane: a bound on the connections that a burst of them takes."""
_HEARTBEAT = "heartbeat"
_MOST_VIOLATIONS = 20
"""Told of those of the contract: what breaks it once breaks it all the time."""


def main() -> None:
    """Churn, measure, judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.long", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sandboxes", type=int, default=5000, help="at once")
    parser.add_argument("--churn", type=float, default=0.2, help="share of them that is replaced each minute")
    parser.add_argument("--interval", type=float, default=10.0, help="collection interval in seconds")
    parser.add_argument("--save", action="store_true", help="keep the results and quote them in the documentation")
    chosen = parser.parse_args()
    console = Console(width=180)
    # Small, so that all that is bounded by them is full before growth is judged.
    tracking = {"max_sandboxes": 2 * chosen.sandboxes, "orphan_grace": "5s", "summary_delay": "10s"}
    with (
        scene(chosen.interval) as at,
        poller(
            at, requests_per_second=_REQUESTS_PER_SECOND, heartbeat=at.folder / _HEARTBEAT, tracking=tracking
        ) as running,
    ):
        results, faults = _measure(at, running, chosen, console)
    console.print(long_section(results).to_terminal())
    console.print(in_words(results.beats, results.minutes))
    console.print(late_section(results.latest).to_terminal())
    for fault in faults:
        console.print(f"NOT FLAT: {fault}")
    if chosen.save:
        kept.save(results, kept.LONG)
        write_document()
    sys.exit(1 if faults else 0)


def _measure(
    at: Scene, running: WatchedPoller, chosen: argparse.Namespace, console: Console
) -> tuple[LongResults, list[str]]:
    churn, seen, probed = Churn(at.fleet, running), Seen(at.sink), at.folder / "health"
    churn.start(chosen.sandboxes)
    until_all_read(at.fleet)
    time.sleep(1.5 * chosen.interval)
    with Program("prober", cores()[1], str(running.status_port), str(probed)):
        marks, held = LongRun(running, at.fleet, churn).run(chosen.minutes, chosen.churn)
    time.sleep(_LINGER_S)
    faults = []
    if not seen.settles(len(GAUGES) * churn.live):
        faults.append(f"{seen.series} series for {churn.live} sandboxes")
    read = list(seen.readings)
    churn.end(churn.live)
    if not seen.settles(0):
        faults.append(f"{seen.series} series outlived their sandboxes")
    for growth in growths(held):
        console.print(growth)
        if not growth.is_flat:
            faults.append(f"{growth.name} grew by {growth.growth:.1f}; at most {growth.bound:.1f} is allowed")
    whole = Heart.recorded(at.folder / _HEARTBEAT).between(marks[0].at_ns, marks[-1].at_ns)
    results = LongResults(
        machine=Machine.this(),
        sandboxes=chosen.sandboxes,
        churn=chosen.churn,
        interval_s=chosen.interval,
        minutes=minutes_of(marks, read, list(answers(Path(probed))), whole, chosen.interval),
        beats=whole.histogram(),
        latest=whole.latest(),
    )
    return results, [*faults, *seen.violations[:_MOST_VIOLATIONS]]


if __name__ == "__main__":
    main()
