"""Rows of the active set: what goes in comes back equal, repeats are known, and what is needed stays."""

import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.ingest.event_json import EventKind
from sandgauge_poller.ingest.events import RequestEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.tracking import progress_rows, store
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_poller.tracking.progress import (
    End,
    Progress,
    RunningStatistics,
    ScopeDecision,
    Series,
    dump_progress,
    load_progress,
)
from sandgauge_poller.tracking.progress_rows import ProgressRow
from sandgauge_poller.tracking.quantities import EXECD_QUANTITIES
from sandgauge_poller.tracking.store import EventRow
from sandgauge_poller.tracking.tally import apply_tally, dump_tally
from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource, SampleScope, ScopeEvidence
from sandgauge_schemas.records import JoinKeys, ReadingStatus, RequestRecord, StartRecord
from sandgauge_schemas.resources import SandboxResources
from support import record_strategies
from support.event_strategies import any_events
from support.tracking_part import save_progress

KEY = SandboxKey("training", "s-1")
HOUR = 3600 * 10**9


@contextmanager
def opened():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in MIGRATIONS:
        connection.executescript(script)
    try:
        yield connection
    finally:
        connection.close()


def row(event):
    keys = event.record.keys if isinstance(event, StartEvent) else getattr(event, "keys", None)
    is_of_one = isinstance(event, StartEvent | StopEvent)
    return EventRow(event, SandboxKey("training", keys.sandbox_id) if is_of_one else None)


def span(number, received_ns=1):
    return {"trace_id": b"\x01" * 16, "span_id": number.to_bytes(8, "big"), "received_ns": received_ns}


def start(number, sandbox_id="s-1", received_ns=1, request_id=None):
    keys = JoinKeys(sandbox_id=sandbox_id, request_id=request_id, provider="opensandbox")
    return StartEvent(**span(number, received_ns), record=StartRecord(keys=keys))


def stop(number, sandbox_id="s-1", received_ns=1):
    return StopEvent(**span(number, received_ns), keys=JoinKeys(sandbox_id=sandbox_id, provider="opensandbox"))


def rollout(number, received_ns=1, trace_id=b"\x01" * 16):
    return RolloutEvent(**{**span(number, received_ns), "trace_id": trace_id}, keys=JoinKeys(rollout_id="7-0"))


def request(number, request_id="rq", received_ns=1, memory_mib=512, start_ns=None):
    keys = JoinKeys(request_id=request_id, provider="opensandbox")
    record = RequestRecord(keys=keys, requested=SandboxResources(memory_mib=memory_mib))
    return RequestEvent(**span(number, received_ns), start_ns=start_ns, record=record)


def loaded(connection):
    return store.load_events(connection, lambda _: None)


@given(events=st.lists(any_events, unique_by=lambda event: (event.trace_id, event.span_id), max_size=5))
def test_events_come_back_equal_in_the_order_of_their_arrival(events):
    with opened() as connection:
        assert store.insert_events(connection, [row(event) for event in events]) == [True] * len(events)
        found = loaded(connection)
        kept = [event for event in events if not isinstance(event, RequestEvent)]
        assert {(event.trace_id, event.span_id): event for event in found} == {
            (event.trace_id, event.span_id): event for event in kept
        }
        arrivals = [event.received_ns for event in found]
        assert arrivals == sorted(arrivals)
        for event in events:
            if isinstance(event, RequestEvent) and event.record.keys.request_id:
                same = [
                    e
                    for e in events
                    if isinstance(e, RequestEvent) and e.record.keys.request_id == event.record.keys.request_id
                ]
                earliest = min(same, key=lambda other: other.order)
                assert store.find_request(connection, event.record.keys.request_id) == earliest.record


@given(events=st.lists(any_events, unique_by=lambda event: (event.trace_id, event.span_id), min_size=1, max_size=4))
def test_a_repeat_is_no_news_and_changes_nothing(events):
    with opened() as connection:
        store.insert_events(connection, [row(event) for event in events])
        before = loaded(connection)
        again = [replace(event, received_ns=event.received_ns + 1) for event in events]
        assert store.insert_events(connection, [row(event) for event in again]) == [False] * len(events)
        assert loaded(connection) == before


def test_a_repeat_within_one_request_is_no_news():
    with opened() as connection:
        assert store.insert_events(connection, [row(start(1)), row(start(1))]) == [True, False]


@given(st.lists(st.integers(1, 12), max_size=30), st.lists(st.integers(1, 12), max_size=30), st.integers(1, 7))
def test_what_is_news_is_said_in_the_order_of_the_events_whatever_the_order_of_the_table(before, after, at_once):
    with opened() as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_ROWS_AT_ONCE", at_once)
        seen = set()
        for numbers in (before, after):
            expected = [not (number in seen or seen.add(number)) for number in numbers]
            assert store.insert_events(connection, [row(start(number)) for number in numbers]) == expected


def test_a_sandbox_that_is_done_with_takes_no_event_any_more():
    with opened() as connection:
        store.insert_events(connection, [row(start(1))])
        store.finish(connection, KEY, 5)
        assert loaded(connection) == []
        assert store.insert_events(connection, [row(start(1)), row(start(2)), row(stop(3))]) == [False] * 3
        assert store.insert_events(connection, [row(start(4, "s-2"))]) == [True]
        assert [event.record.keys.sandbox_id for event in loaded(connection)] == ["s-2"]


def test_a_sandbox_may_be_done_with_before_its_start_comes():
    with opened() as connection:
        store.finish(connection, KEY, 5)
        assert store.insert_events(connection, [row(start(1))]) == [False]


def test_the_request_of_an_id_is_the_earliest_and_none_without_one():
    with opened() as connection:
        requests = [request(1, start_ns=9, memory_mib=1), request(2, start_ns=3, memory_mib=2), request(3, "other")]
        store.insert_events(connection, [row(event) for event in requests])
        assert store.find_request(connection, "rq") == requests[1].record
        assert store.find_request(connection, "unknown") is None


_windows = st.integers(0, 2**62)
_decisions = st.none() | st.builds(ScopeDecision, st.sampled_from(SampleScope), st.sampled_from(ScopeEvidence))
_finite = st.floats(allow_nan=False, allow_infinity=False)
progresses = st.builds(
    Progress,
    allocation=st.none() | record_strategies.allocations,
    recorded_allocation=st.none() | record_strategies.allocations,
    allocation_status=st.none()
    | st.builds(
        ReadingStatus, source=st.sampled_from(ResourceSource), error_type=st.none() | st.sampled_from(ErrorType)
    ),
    readings=st.integers(0, 2**40),
    missed=st.integers(0, 2**40),
    failed_in_a_row_ns=st.lists(_windows, max_size=3),
    first_reading_ns=st.none() | _windows,
    last_reading_ns=st.none() | _windows,
    statistics=st.dictionaries(
        record_strategies.texts,
        st.builds(RunningStatistics, st.integers(1, 9), _finite, _finite, _finite, _finite),
        max_size=2,
    ),
    cpu=_decisions,
    memory=_decisions,
    cpu_zeros=st.integers(0, 9),
    series=st.dictionaries(
        record_strategies.texts,
        st.builds(Series, st.dictionaries(record_strategies.texts, st.text(), max_size=2), _windows),
        max_size=2,
    ),
    resets=st.integers(0, 9),
    oom_killed=st.none() | st.booleans(),
    expires_at_ns=st.none() | st.integers(0, 2**80),
    not_found_ns=st.none() | _windows,
    end=st.none() | st.builds(End, st.sampled_from(EndReason), _windows),
    ended_seen_ns=st.none() | _windows,
    stop_overruled=st.booleans(),
    confirmed=st.booleans(),
    leaked=st.booleans(),
    summarised=st.booleans(),
)


@given(progress=progresses)
def test_progress_comes_back_equal(progress):
    assert load_progress(dump_progress(progress)) == progress


@given(before=progresses, after=progresses)
def test_a_tally_holds_all_that_readings_change(before, after):
    """Of two states that differ in nothing else, the older one with the newer one's tally is the newer one."""
    for name in ("readings", "missed", "failed_in_a_row_ns", "first_reading_ns", "last_reading_ns", "cpu_zeros"):
        setattr(before, name, getattr(after, name))
    later, changed = load_progress(dump_progress(before)), load_progress(dump_progress(before))
    for metric in EXECD_QUANTITIES:
        later.statistics[metric] = RunningStatistics(3, 6.0, 1.0, 3.0, 2.5)
        later.series[metric] = Series({"a": "b"}, 9)
        changed.series[metric] = Series({"a": "b"}, 7)
    apply_tally(changed, dump_tally(later))
    assert changed == later


def test_progress_of_sandboxes_that_are_done_with_is_gone():
    with opened() as connection:
        other = SandboxKey("training", "s-2")
        store.insert_events(connection, [row(start(1)), row(start(2, "s-2"))])
        save_progress(connection, KEY, Progress(readings=3), 7)
        save_progress(connection, KEY, Progress(readings=4), 8)
        save_progress(connection, other, Progress(readings=5), 8)
        store.finish(connection, other, 9)
        save_progress(connection, other, Progress(readings=6), 10)
        assert progress_rows.load_all(connection) == {KEY: Progress(readings=4)}


def spans_left(connection):
    return {int.from_bytes(found[0], "big") for found in connection.execute("SELECT span_id FROM event")}


def sandboxes_left(connection):
    return {found[0] for found in connection.execute("SELECT sandbox_id FROM sandbox")}


def test_what_is_older_than_the_memory_goes_unless_a_live_sandbox_needs_it():
    with opened() as connection:
        old = [
            start(1, "live", request_id="rq"),
            stop(2, "live"),
            start(3, "done"),
            request(4, "rq"),
            request(5, "nobody's"),
            rollout(6),
            rollout(7, trace_id=b"\x02" * 16),
            stop(8, "never started"),
        ]
        young = [stop(9, "never started", received_ns=2 * HOUR), rollout(10, 2 * HOUR, trace_id=b"\x03" * 16)]
        store.insert_events(connection, [row(event) for event in [*old, *young]])
        store.finish(connection, SandboxKey("training", "done"), 1)
        needed = {(EventKind.REQUEST, "rq"), (EventKind.ROLLOUT, (b"\x01" * 16).hex())}
        store.prune(connection, HOUR, 1000, needed)
        assert spans_left(connection) == {1, 2, 4, 6, 9, 10}
        assert sandboxes_left(connection) == {"live"}


def test_what_was_on_its_way_as_a_sandbox_was_forgotten_goes_with_the_next_tidying_up():
    with opened() as connection:
        other = SandboxKey("training", "s-2")
        store.insert_events(connection, [row(start(1)), row(start(2, "s-2"))])
        store.forget(connection, [KEY])
        for key in (KEY, other):
            save_progress(connection, key, Progress(missed=1), 5)
        assert set(progress_rows.load_all(connection)) == {KEY, other}
        store.prune(connection, 0, 1000, set())
        progress_rows.prune(connection)
        assert set(progress_rows.load_all(connection)) == {other}
        assert connection.execute("SELECT count(*) FROM tally").fetchone() == (1,)


def test_beyond_the_size_of_the_memory_the_oldest_goes_first():
    with opened() as connection:
        live = [start(1, "live", received_ns=1)]
        store.insert_events(connection, [row(event) for event in live])
        for number in range(2, 12):
            store.insert_events(connection, [row(start(number, f"done-{number}", received_ns=number))])
            store.finish(connection, SandboxKey("training", f"done-{number}"), number)
        store.prune(connection, 0, 4, set())
        assert spans_left(connection) == {1, 9, 10, 11}
        assert sandboxes_left(connection) == {"live", "done-8", "done-9", "done-10", "done-11"}
        store.prune(connection, 0, 4, set())
        assert spans_left(connection) == {1, 9, 10, 11}


def test_live_sandboxes_are_kept_even_beyond_the_size():
    with opened() as connection:
        store.insert_events(connection, [row(start(number, f"live-{number}")) for number in range(1, 6)])
        store.prune(connection, HOUR, 2, set())
        assert spans_left(connection) == {1, 2, 3, 4, 5}
        assert len(sandboxes_left(connection)) == 5


def test_unreadable_rows_cost_their_own_progress_alone_and_are_counted_in_one_line(caplog):
    good, bad = SandboxKey("training", "sb-good"), SandboxKey("training", "sb-bad")
    worse, shorn = SandboxKey("training", "sb-worse"), SandboxKey("training", "sb-shorn")
    with opened() as connection:
        save_progress(connection, good, Progress(readings=3), 1)
        torn = (ProgressRow(bad, 0.5, dump_tally(Progress()), b"{"), ProgressRow(worse, 0.5, b"", b""))
        short = (ProgressRow(shorn, 0.5, dump_tally(Progress())[:-1], dump_progress(Progress())),)
        progress_rows.save(connection, [*torn, *short], 1)
        found = progress_rows.load_all(connection)
    assert {key: progress.readings for key, progress in found.items()} == {good: 3}
    (record,) = caplog.records
    assert "what was seen of 3 sandboxes is unreadable" in record.getMessage()


@pytest.mark.parametrize("damage", ["{", "[]", '{"start":1}', b"\xff\xfe{"])
def test_unreadable_events_cost_their_own_sandbox_alone_and_are_counted_in_one_line(caplog, damage):
    with opened() as connection:
        store.insert_events(connection, [row(start(number, f"s-{number}")) for number in range(1, 4)])
        connection.execute("UPDATE event SET body = CAST(? AS TEXT) WHERE subject IN ('s-1', 's-3')", (damage,))
        assert loaded(connection) == [start(2, "s-2")]
    (record,) = caplog.records
    assert "2 stored spans are unreadable" in record.getMessage()
