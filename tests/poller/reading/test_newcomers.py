"""Whose first reading is next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.reading.newcomers import Newcomers
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.fold import Lifecycle
from sandgauge_poller.tracking.progress import End, Progress
from sandgauge_poller.tracking.routing import RouteOutcome
from sandgauge_schemas.names import EndReason
from sandgauge_schemas.records import JoinKeys, StartRecord


def sandbox(sandbox_id, run=None, trace=None):
    record = StartRecord(keys=JoinKeys(sandbox_id=sandbox_id, run_id=run))
    trace_id = (trace or sandbox_id).encode().ljust(16, b".")[-16:]
    start = StartEvent(trace_id=trace_id, span_id=b"12345678", received_ns=1, record=record)
    return Tracked(SandboxKey("training", sandbox_id), "training", RouteOutcome.MATCHED, Lifecycle(start=start))


def taken(newcomers):
    order = []
    while (found := newcomers.take()) is not None:
        order.append(found.key.sandbox_id)
    return order


def waiting(*sandboxes):
    newcomers = Newcomers()
    for one in sandboxes:
        newcomers.add(one)
    return newcomers


def test_strangers_take_turns_from_both_ends():
    newcomers = waiting(*(sandbox(f"s-{n}") for n in range(6)))
    assert sorted(taken(newcomers)) == [f"s-{n}" for n in range(6)]
    for one in (sandbox("old"), *(sandbox(f"flood-{n}") for n in range(50)), sandbox("new")):
        newcomers.add(one)
    assert {"old", "new"} <= set(taken(newcomers)[:4])


@pytest.mark.parametrize("late", [sandbox("late", run="r-1"), sandbox("late", trace="t-1")])
def test_one_whose_run_or_trace_has_answered_has_every_other_turn(late):
    newcomers = waiting(*(sandbox(f"flood-{n}") for n in range(50)))
    newcomers.vouch(sandbox("alive", run="r-1", trace="t-1"))
    newcomers.add(late)
    assert "late" in taken(newcomers)[:2]


def test_one_that_was_read_before_is_known():
    newcomers = waiting(*(sandbox(f"flood-{n}") for n in range(50)))
    again = sandbox("again")
    again.progress = Progress(first_reading_ns=1)
    newcomers.add(again)
    assert "again" in taken(newcomers)[:2]


def test_one_that_waits_twice_or_has_ended_takes_no_turn_for_nothing():
    ended = sandbox("ended")
    ended.progress.end = End(EndReason.STOPPED, 1)
    newcomers = waiting(sandbox("a"), ended, sandbox("a"), sandbox("b"))
    assert sorted(taken(newcomers)) == ["a", "b"]


@given(before=st.integers(0, 30), known=st.integers(0, 30), after=st.integers(0, 5))
def test_a_stranger_waits_for_no_more_than_those_that_were_there(before, known, after):
    newcomers = waiting(*(sandbox(f"before-{n}") for n in range(before)), sandbox("it"))
    newcomers.vouch(sandbox("alive", run="r-1"))
    for number in range(known):
        newcomers.add(sandbox(f"known-{number}", run="r-1"))
    turns = 0
    while True:
        turns += 1
        for number in range(after):
            newcomers.add(sandbox(f"after-{turns}-{number}"))
        if newcomers.take().key.sandbox_id == "it":
            break
    assert turns <= 4 * (before + 1) + 1
