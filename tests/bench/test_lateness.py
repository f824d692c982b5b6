"""A heartbeat tells a loop that computes from one that was not let run, and where it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.heartbeat import Beat, Collection
from bench.lateness import Heart

TESTS = Path(__file__).parents[1]

HOLDS = """
import asyncio, sys, time
from pathlib import Path
from bench.heartbeat import Heartbeat

def is_seen():
    return len((folder / "looks").read_text().splitlines()) > before + 2

def computes():
    while time.thread_time() < begun + 0.2 or not is_seen():
        pass

def waits():
    while not is_seen():
        time.sleep(0.4)

async def main():
    await asyncio.sleep(0.1)
    global before
    before = len((folder / "looks").read_text().splitlines())
    {0}()

folder = Path(sys.argv[1])
loop = asyncio.new_event_loop()
begun = time.thread_time()
Heartbeat(loop, folder)
loop.run_until_complete(main())
loop.run_until_complete(asyncio.sleep(0.1))
"""


def beat(at_s: float, lag_s: float, loop_s: float = 0.0, process_s: float = 0.0) -> Beat:
    return Beat(int(at_s * 1e9), lag_s, loop_s, process_s)


@pytest.mark.parametrize("what", ["computes", "waits"])
def test_it_is_seen_what_held_a_loop(what: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS.replace("{0}", what), str(tmp_path)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(TESTS)}, check=True)
    latest = Heart.recorded(tmp_path).latest()
    (found,) = (late for late in latest if any(call.endswith(f" {what}") for call in late.calls))
    if what == "computes":
        assert found.held_s > 0.1
        assert found.held_s <= found.held_by_process_s <= found.lag_s
    else:
        assert found.lag_s > 0.38
        assert found.held_s < found.lag_s / 2


def test_what_it_computed_before_it_was_late_holds_nobody() -> None:
    assert beat(1, 0.01, loop_s=0.012).held_s == 0.01
    assert beat(1, 0.5, loop_s=0.1, process_s=0.3).held_s == 0.1
    assert beat(1, 0.5, loop_s=0.1, process_s=0.3).held_by_process_s == 0.3


def test_figures_are_those_of_the_time_that_is_asked_for() -> None:
    whole = Heart(
        [beat(1, 0.0), beat(2, 0.06, 0.05, 0.055), beat(3, 0.3)], [Collection(int(2e9) - 1, 0.04, 0)], looks=[]
    )
    part = whole.between(int(2e9), int(3e9))
    assert part.figures()["lag_s"].max == 0.06
    assert part.figures()["held_s"].max == 0.05
    assert part.figures()["collected_s"] is None
    assert [late.lag_s for late in whole.latest()] == [0.06, 0.3]
    assert whole.latest()[0].collected_s == 0.04
    assert {name: count for name, count in whole.histogram().items() if count} == {"1": 1, "100": 1, "500": 1}
