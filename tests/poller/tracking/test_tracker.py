"""Events through the real store into the active set, and back after a restart."""

import asyncio
import sqlite3
import threading
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandgauge_poller.ingest.events import RequestEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking import tracker as tracker_module
from sandgauge_poller.tracking.active_set import ChangeKind
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_poller.tracking.tracker import Tracker
from sandgauge_schemas.names import SpanOutcome
from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord
from support.event_strategies import DEPLOYMENTS, meeting_events
from support.tracking_part import save_progress, tracking

ACCEPTED, REPEATED, REJECTED = SpanOutcome.ACCEPTED, SpanOutcome.REPEATED, SpanOutcome.REJECTED
ROUTING = Routing(DEPLOYMENTS)
TRACE = b"\x01" * 16
HOUR = 3600 * 10**9


def start(number, sandbox_id="s", received_ns=1, trace_id=TRACE, request_id=None):
    keys = JoinKeys(sandbox_id=sandbox_id, provider="opensandbox", request_id=request_id)
    record = StartRecord(keys=keys, scope="http://east:8080")
    return StartEvent(trace_id=trace_id, span_id=bytes([number]) * 8, received_ns=received_ns, record=record)


def stop(number, sandbox_id="s", scope="http://east:8080", received_ns=1):
    keys = JoinKeys(sandbox_id=sandbox_id, provider="opensandbox")
    span_id = bytes([number]) * 8
    return StopEvent(trace_id=TRACE, span_id=span_id, received_ns=received_ns, keys=keys, scope=scope)


def running(folder, routing=ROUTING, **settings_):
    return tracking(folder, routing, "east", **settings_)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state"


async def test_events_are_stored_before_they_count_and_before_they_are_answered(folder):
    async with running(folder) as poller:
        held, release = threading.Event(), threading.Event()
        poller.database.submit(lambda _: (held.set(), release.wait(60)))
        await asyncio.to_thread(held.wait, 10)
        commit = asyncio.create_task(poller.tracker.commit([start(1)]))
        done, _ = await asyncio.wait([commit], timeout=0.1)
        assert (done, len(poller.active), poller.changes) == (set(), 0, [])
        release.set()
        assert await commit == [ACCEPTED]
        assert poller.kinds == [ChangeKind.STARTED]


async def test_a_resend_is_a_repeat_and_changes_nothing(folder):
    async with running(folder) as poller:
        events = [start(1), stop(2)]
        assert await poller.tracker.commit(events) == [ACCEPTED, ACCEPTED]
        before = list(poller.changes)
        assert await poller.tracker.commit([*events, start(1)]) == [REPEATED] * 3
        assert poller.changes == before


async def test_a_failed_commit_counts_nothing_and_can_be_sent_again(folder, monkeypatch):
    async with running(folder, capacity=1) as poller:
        with monkeypatch.context() as broken:
            broken.setattr(store, "insert_events", _disk_full)
            with pytest.raises(sqlite3.OperationalError):
                await poller.tracker.commit([start(1)])
        assert (len(poller.active), poller.changes) == (0, [])
        assert await poller.tracker.commit([start(1)]) == [ACCEPTED]


def _disk_full(*_):
    raise sqlite3.OperationalError("database or disk is full")


async def test_beyond_the_capacity_newcomers_are_rejected_and_nobody_else(folder):
    async with running(folder, capacity=2) as poller:
        rollout = RolloutEvent(trace_id=TRACE, span_id=b"\x09" * 8, received_ns=1, keys=JoinKeys(rollout_id="7-0"))
        batch = [start(1, "a"), start(2, "b"), start(3, "c"), start(4, "a"), stop(5, "a"), rollout]
        assert await poller.tracker.commit(batch) == [ACCEPTED, ACCEPTED, REJECTED, *[ACCEPTED] * 3]
        assert poller.ids == {"a", "b"}
        poller.sandbox("b").progress.first_reading_ns = 1
        await poller.tracker.finish(poller.sandbox("a"), 5)
        assert await poller.tracker.commit([start(1, "a"), start(3, "c"), start(6, "d")]) == [
            REPEATED,
            ACCEPTED,
            REJECTED,
        ]
        assert poller.ids == {"b", "c"}


async def test_requests_that_come_at_once_do_not_pass_the_capacity_together(folder):
    async with running(folder, capacity=3) as poller:
        answers = await asyncio.gather(*(poller.tracker.commit([start(n, f"s-{n}")]) for n in range(1, 9)))
        assert [outcome for (outcome,) in answers] == [ACCEPTED] * 3 + [REJECTED] * 5
        assert len(poller.active) == 3


async def test_readings_go_on_while_a_large_request_is_folded_in(folder, monkeypatch):
    monkeypatch.setattr(tracker_module, "_AT_ONCE", 10)
    async with running(folder, capacity=200) as poller:
        turns, folded = 0, Counter()

        async def read_on():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        def on_change(_):
            folded[turns] += 1

        tracker = Tracker(poller.database, poller.active, on_change)
        reading = asyncio.create_task(read_on())
        assert await tracker.commit([start(n, f"s-{n}") for n in range(1, 200)]) == [ACCEPTED] * 199
        reading.cancel()
        assert folded.total() == 199
        assert max(folded.values()) == 10


async def test_a_sandbox_that_is_done_with_stays_so(folder):
    async with running(folder) as poller:
        await poller.tracker.commit([start(1)])
        await poller.tracker.finish(poller.sandbox(), 5)
        assert await poller.tracker.commit([start(1), start(2), stop(3)]) == [REPEATED] * 3
    async with running(folder) as poller:
        assert len(poller.active) == 0
        assert await poller.tracker.commit([start(4), stop(5)]) == [REPEATED] * 2


async def test_a_sandbox_that_is_done_with_while_its_event_is_on_its_way_stays_so(folder):
    async with running(folder) as poller:
        await poller.tracker.commit([start(1)])
        sandbox = poller.sandbox()
        outcomes, _ = await asyncio.gather(poller.tracker.commit([start(2)]), poller.tracker.finish(sandbox, 5))
        assert outcomes == [REPEATED]
        assert len(poller.active) == 0
    async with running(folder) as poller:
        assert len(poller.active) == 0


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(events=meeting_events, data=st.data())
async def test_a_restart_brings_the_same_active_set_back(tmp_path_factory, events, data):
    folder = tmp_path_factory.mktemp("state")
    async with running(folder) as poller:
        while events:
            batch, events = events[: (size := data.draw(st.integers(1, len(events))))], events[size:]
            await poller.tracker.commit(batch)
        if len(poller.active):
            for key in data.draw(st.sets(st.sampled_from([s.key for s in poller.active]))):
                await poller.tracker.finish(poller.active.get(key), 9)
        for number, sandbox in enumerate(poller.active):
            sandbox.progress = Progress(readings=number, leaked=True)
            await poller.database.write(lambda c, seen=sandbox: save_progress(c, seen.key, seen.progress, 9))
        before = poller.state
    async with running(folder) as poller:
        assert poller.state == before
        assert sorted(poller.kinds, key=str) == [ChangeKind.RESTORED] * len(before)
        await poller.tracker.prune(HOUR, 0)
        assert poller.state == before
    async with running(folder) as poller:
        assert poller.state == before


async def test_what_a_live_sandbox_needs_outlives_the_memory(folder):
    rollout = RolloutEvent(trace_id=TRACE, span_id=b"\x09" * 8, received_ns=1, keys=JoinKeys(rollout_id="7-0"))
    request = RequestEvent(
        trace_id=TRACE, span_id=b"\x08" * 8, received_ns=1, record=RequestRecord(keys=JoinKeys(request_id="rq"))
    )
    async with running(folder) as poller:
        await poller.tracker.commit([request, start(1, request_id="rq"), rollout, stop(2, scope=None)])
        await poller.tracker.prune(HOUR, 0)
        before = poller.state
        assert poller.sandbox().lifecycle.stop is not None
    async with running(folder) as poller:
        assert poller.state == before
        assert poller.database.read(lambda c: store.find_request(c, "rq")) == request.record
        await poller.tracker.finish(poller.sandbox(), HOUR)
        await poller.tracker.prune(2 * HOUR, 100)
        assert poller.database.read(lambda c: c.execute("SELECT count(*) FROM event").fetchone()) == (0,)


async def test_sandboxes_that_nobody_reads_are_forgotten_after_a_while(folder):
    async with running(folder) as poller:
        await poller.tracker.commit([start(1, "read"), start(2, "old"), start(3, "young", received_ns=2 * HOUR)])
        await poller.tracker.forget_unread(HOUR, lambda sandbox: sandbox.key.sandbox_id == "read", 3 * HOUR)
        assert poller.ids == {"read", "young"}
        assert await poller.tracker.commit([start(4, "old")]) == [REPEATED]


async def test_a_renamed_deployment_keeps_its_sandboxes_and_resurrects_none(folder):
    before, renamed = (
        Routing([DeploymentNames(name, "opensandbox", frozenset({"http://east:8080"}))]) for name in ("east", "new")
    )
    async with running(folder, routing=before) as poller:
        await poller.tracker.commit([start(1, "live"), start(2, "ended")])
        live = poller.sandbox("live")
        live.progress.readings = 7
        await poller.save("live", live.progress)
    async with running(folder, routing=renamed) as poller:
        assert len(poller.active) == 2
        kept = poller.sandbox("live", "new")
        assert (kept.deployment, kept.progress.readings) == ("new", 7)
        await poller.tracker.finish(poller.sandbox("ended", "new"), 1)
    async with running(folder, routing=renamed) as poller:
        assert len(poller.active) == 1
        assert await poller.tracker.commit([start(3, "ended")]) == [REPEATED]


async def test_a_sandbox_that_ended_under_one_name_does_not_come_back_under_another(folder):
    east, west = (
        Routing([DeploymentNames(name, "opensandbox", frozenset({"http://east:8080"}))]) for name in ("east", "west")
    )
    async with running(folder, routing=west) as poller:
        await poller.tracker.commit([start(1)])
        await poller.tracker.finish(poller.sandbox("s", "west"), 1)
    async with running(folder, routing=east) as poller:
        await poller.tracker.commit([start(2)])
    async with running(folder, routing=west) as poller:
        assert len(poller.active) == 0
