"""`python -m bench.held`: whether anything beside steady readings holds the poller's loop.

A fleet that comes at once, one that is read, whoever looks at the page, a scrape of `/metrics`, and a restart after
kill -9; of each, how late the loop was and what held it. Prints, and keeps nothing.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import requests
from rich.console import Console

from bench.churn import Churn
from bench.lateness import Heart
from bench.report import Section, late_section
from bench.scene import Scene, WatchedPoller, poller, scene, until_all_read

_INTERVAL_S = 10.0
_REPEATS = 5
_APART_S = 0.3
_SETTLE_S = 2.0
"""For the last beats to reach their file."""
_PAGES = {
    "overview of the page": "/api/v1/overview",
    "100 rows": "/api/v1/sandboxes?limit=100",
    "1,000 rows by rollout": "/api/v1/sandboxes?limit=1000&sort=rollout&order=desc",
    "1,000 rows by sandbox, filtered": "/api/v1/sandboxes?limit=1000&sort=sandbox&q=a",
    "1,000 rows by lateness": "/api/v1/sandboxes?limit=1000&sort=lateness&show=active",
    "/metrics": "/metrics",
}
_COLUMNS = ("while", "beats", "late p50 / p99 / max ms", "held by the loop max", "by the process max", "garbage max")


@dataclass(slots=True)
class _Phases:
    """What was measured so far, and the heartbeat that tells it."""

    folder: Path
    console: Console
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began_ns = time.time_ns()
        yield
        ended_ns = time.time_ns()
        time.sleep(_SETTLE_S)
        heart = Heart.recorded(self.folder).between(began_ns, ended_ns)
        figures = heart.figures()
        late = figures["lag_s"]
        most = (figures[which] for which in ("held_s", "held_by_process_s", "collected_s"))
        several = " / ".join(_ms(value) for value in (late.p50, late.p99, late.max))
        row = (name, f"{late.count:,}", several, *("" if found is None else _ms(found.max) for found in most))
        self.rows.append(row)
        if latest := heart.latest():
            self.console.print(f"\n{name}:", late_section(latest).to_terminal())


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def main() -> None:
    """Measure each and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.held", description=__doc__)
    parser.add_argument("--sandboxes", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of steady readings")
    chosen = parser.parse_args()
    tracking = {"max_sandboxes": 2 * chosen.sandboxes}
    with scene(_INTERVAL_S) as at, poller(at, heartbeat=at.folder / "heartbeat", tracking=tracking) as running:
        phases = _Phases(at.folder / "heartbeat", Console(width=180))
        _measure(at, running, chosen, phases.phase)
        phases.console.print(Section("What holds the loop", _COLUMNS, phases.rows).to_terminal())


def _measure(
    at: Scene, running: WatchedPoller, chosen: argparse.Namespace, phase: Callable[[str], AbstractContextManager[None]]
) -> None:
    with phase(f"{chosen.sandboxes:,} sandboxes arrive"):
        Churn(at.fleet, running).start(chosen.sandboxes)
        until_all_read(at.fleet)
    time.sleep(1.5 * _INTERVAL_S)
    with phase("they are read"):
        time.sleep(chosen.seconds)
    session = requests.Session()
    session.trust_env = False
    with session:
        for name, path in _PAGES.items():
            with phase(name):
                for _ in range(_REPEATS):
                    session.get(running.status_url + path, timeout=60).raise_for_status()
                    time.sleep(_APART_S)
    at.fleet.forget_reads()
    running.kill()
    with phase("it starts again after kill -9, imports included"):
        running.start_on_its_core()
    with phase("all are read again"):
        until_all_read(at.fleet)
        time.sleep(_INTERVAL_S)


if __name__ == "__main__":
    main()
