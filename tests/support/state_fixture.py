"""Make the state of a poller as a text file, to be kept: every later version must be able to go on from it.

`PYTHONPATH=tests python -m support.state_fixture tests/fixtures/state/v1.sql` is run once for each version of the
store, by the release that brings it; a file that is there is never made anew.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from sandgauge_demo.deployment import Route
from sandgauge_poller.tracking.database import STORE_FILE
from sandgauge_schemas import names
from support.feed import feed, rollout_span, start_span, stop_span
from support.running_poller import RunningPoller
from support.simulated_osb import osb_in_thread
from support.waiting import wait_until

LIVING = ("living-1", "living-2", "living-3")
ENDED = "ended-1"
"""Stopped and summarised; the control plane has not confirmed its end yet."""
UNREAD = "unread-1"
"""Of a provider that no deployment has."""
TRACES = {sandbox_id: f"{number:032x}" for number, sandbox_id in enumerate((*LIVING, ENDED, UNREAD), start=1)}
ROLLOUT = "rollout-of-living-1"
_PARENT = "00000000000000ff"


def make(directory: Path) -> Path:
    """Run a poller whose Collector is away and end it; return the file of its store."""
    with osb_in_thread() as osb:
        for sandbox_id in (*LIVING, ENDED):
            osb.create(id=sandbox_id, limits={"cpu": "500m", "memory": "128Mi"})
        poller = RunningPoller(
            directory,
            {
                "deployments": [{"name": "training", "endpoint": osb.url}],
                "sampling": {"collection_interval": "1s", "min_interval": "500ms"},
                "export": {"endpoint": "http://127.0.0.1:9"},
            },
        )
        with poller:
            read = [start_span(i, trace_id=TRACES[i], parent=_PARENT) for i in LIVING]
            ended = start_span(ENDED, trace_id=TRACES[ENDED])
            unread = start_span(UNREAD, trace_id=TRACES[UNREAD], attributes={names.NEMO_GYM_SANDBOX_PROVIDER: "other"})
            feed(poller.endpoint, *read, ended, unread, rollout_span(TRACES[LIVING[0]], ROLLOUT))
            feed(poller.endpoint, stop_span("stopped-before-start"))
            for sandbox_id in (*LIVING, ENDED):
                osb.wait_for(2, Route.EXECD, sandbox_id)
            osb.delete(ENDED)
            feed(poller.endpoint, stop_span(ENDED, trace_id=TRACES[ENDED]))
            file = directory / "state" / STORE_FILE
            wait_until(lambda: _is_summarised(file), timeout_s=60, what="the summary")
    return file


def load(script: Path, file: Path) -> None:
    """Make the store's file of the text."""
    with closing(sqlite3.connect(file)) as store:
        store.executescript(script.read_text())


def _is_summarised(file: Path) -> bool:
    query = "SELECT count(*) FROM sandbox WHERE sandbox_id = ? AND CAST(progress AS TEXT) LIKE '%\"summarised\":true%'"
    with closing(sqlite3.connect(file)) as store:
        return bool(store.execute(query, (ENDED,)).fetchone()[0])


def _main() -> None:
    target = Path(sys.argv[1])
    if target.exists():
        sys.exit(f"{target} is there already; it shows what that version wrote")
    with TemporaryDirectory() as directory, closing(sqlite3.connect(make(Path(directory)))) as store:
        version = store.execute("PRAGMA user_version").fetchone()[0]
        lines = [*store.iterdump(), f"PRAGMA user_version = {version};"]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    _main()
