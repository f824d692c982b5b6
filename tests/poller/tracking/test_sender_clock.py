"""Lifetimes and times of spans whose senders have other clocks, or whose delivery took its time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.ingest.events import StartEvent, StopEvent
from sandgauge_poller.tracking.fold import Lifecycle
from sandgauge_poller.tracking.progress import End, Progress
from sandgauge_poller.tracking.sender_clock import DELIVERY_NS, ended_ns, lifetime_s, started_ns, stop_began_ns
from sandgauge_schemas.names import EndReason
from sandgauge_schemas.records import JoinKeys, StartRecord

T0, SECOND = 1_795_000_000_000_000_000, 10**9
LIVED_S = 100


def at(seconds):
    return None if seconds is None else T0 + round(seconds * SECOND)


def start(*, ended=0.0, received=0.0):
    record = StartRecord(keys=JoinKeys(sandbox_id="s"))
    return StartEvent(
        trace_id=b"\x01" * 16, span_id=b"\x01" * 8, end_ns=at(ended), received_ns=at(received), record=record
    )


def stop(*, began=None, ended=None, received=0.0):
    return StopEvent(
        trace_id=b"\x01" * 16,
        span_id=b"\x02" * 8,
        start_ns=at(began),
        end_ns=at(ended),
        received_ns=at(received),
        keys=JoinKeys(sandbox_id="s"),
    )


def lived(*, start_ahead, stop_ahead, start_took, stop_took):
    """Return what is known of a sandbox of LIVED_S; read each 10 s once it is known, until just before its end."""
    started = start(ended=start_ahead, received=start_took)
    said, received = LIVED_S + stop_ahead, LIVED_S + stop_took
    stopped = stop(began=said - 1, ended=said, received=received)
    last = max((time for time in range(0, LIVED_S, 10) if time >= start_took), default=None)
    progress = Progress(
        end=End(EndReason.STOPPED, at(said)), ended_seen_ns=at(received + 0.01), last_reading_ns=at(last)
    )
    return Lifecycle(start=started, stop=stopped), progress


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        # one clock, which is the poller's, ahead of it, behind it: exact
        ({"start_ahead": 0, "stop_ahead": 0, "start_took": 3, "stop_took": 1}, LIVED_S),
        ({"start_ahead": 50, "stop_ahead": 50, "start_took": 3, "stop_took": 1}, LIVED_S),
        ({"start_ahead": 50, "stop_ahead": 50, "start_took": 1, "stop_took": 5}, LIVED_S),
        ({"start_ahead": -50, "stop_ahead": -50, "start_took": 3, "stop_took": 1}, LIVED_S),
        ({"start_ahead": -3600, "stop_ahead": -3600, "start_took": 1, "stop_took": 5}, LIVED_S),
        # two clocks: right but for what the delivery took
        ({"start_ahead": 0, "stop_ahead": 50, "start_took": 3, "stop_took": 1}, LIVED_S + 1),
        ({"start_ahead": 50, "stop_ahead": 0, "start_took": 3, "stop_took": 1}, LIVED_S - 3),
        ({"start_ahead": 0, "stop_ahead": -50, "start_took": 3, "stop_took": 1}, LIVED_S + 1),
        ({"start_ahead": 50, "stop_ahead": -50, "start_took": 3, "stop_took": 1}, LIVED_S - 2),
        # one clock, and a fault that held one span up, or both until after the end
        ({"start_ahead": 0, "stop_ahead": 0, "start_took": 60, "stop_took": 1}, LIVED_S),
        ({"start_ahead": 0, "stop_ahead": 0, "start_took": 3, "stop_took": 60}, LIVED_S),
        ({"start_ahead": 0, "stop_ahead": 0, "start_took": 280, "stop_took": 180}, LIVED_S),
    ],
)
def test_a_lifetime_is_the_senders_where_one_clock_told_it_else_as_the_poller_saw_it(clocks, expected):
    assert lifetime_s(*lived(**clocks)) == pytest.approx(expected)


@pytest.mark.parametrize("reason", [EndReason.GONE, EndReason.EXPIRED, EndReason.FAILED, EndReason.TERMINATED])
@pytest.mark.parametrize(
    ("ended", "received", "expected"), [(0, 3, 100), (50, 3, 97), (-50, 3, 97), (150, 3, 97), (0, 0, 100)]
)
def test_an_end_that_the_poller_saw_is_counted_from_a_start_on_its_own_clock(reason, ended, received, expected):
    progress = Progress(end=End(reason, at(100)), ended_seen_ns=at(100))
    # That a stop came as well tells nothing of when it ended.
    for stopped in (None, stop(began=500, ended=500, received=100)):
        found = lifetime_s(Lifecycle(start=start(ended=ended, received=received), stop=stopped), progress)
        assert found == pytest.approx(expected)


def test_a_stop_that_comes_after_the_control_planes_word_does_not_outlast_it():
    progress = Progress(end=End(EndReason.STOPPED, at(95)), ended_seen_ns=at(60))
    stopped = stop(began=94, ended=95, received=100)
    assert lifetime_s(Lifecycle(start=start(), stop=stopped), progress) == pytest.approx(60)


def test_a_stop_span_without_an_end_is_taken_by_its_beginning_and_one_without_times_by_its_coming():
    progress = Progress(end=End(EndReason.STOPPED, at(40)), ended_seen_ns=at(41))
    assert lifetime_s(Lifecycle(start=start(), stop=stop(began=39, received=40)), progress) == pytest.approx(39)
    assert lifetime_s(Lifecycle(start=start(), stop=stop(received=40)), progress) == pytest.approx(40)


@pytest.mark.parametrize(
    ("lifecycle", "progress"),
    [
        (Lifecycle(), Progress(end=End(EndReason.GONE, at(1)))),
        (Lifecycle(start=start()), Progress()),
        (Lifecycle(start=start(ended=None)), Progress(end=End(EndReason.GONE, at(1)))),
        (Lifecycle(start=start(ended=5, received=5)), Progress(end=End(EndReason.GONE, at(1)))),
    ],
    ids=["no start", "no end", "no time", "ended before it started"],
)
def test_without_two_times_there_is_no_lifetime(lifecycle, progress):
    assert lifetime_s(lifecycle, progress) is None


seconds = st.floats(-4000, 4000)
took = st.floats(0, 4000)


@given(start_ahead=seconds, stop_ahead=seconds, start_took=took, stop_took=took)
def test_no_lifetime_is_negative_or_ends_after_the_poller_had_heard_of_the_end(
    start_ahead, stop_ahead, start_took, stop_took
):
    lifecycle, progress = lived(
        start_ahead=start_ahead, stop_ahead=stop_ahead, start_took=start_took, stop_took=stop_took
    )
    found = lifetime_s(lifecycle, progress)
    earliest_s = min(start_ahead, start_took)
    # One clock's times are on that clock: what it is ahead, up to a delivery, is in neither bound.
    slack = DELIVERY_NS / SECOND
    assert found is None or 0 <= found <= LIVED_S + stop_took - earliest_s + slack


@pytest.mark.parametrize(
    ("ended", "received", "expected"), [(0, 0, 0), (0, 9, 0), (0, 11, 11), (50, 3, 3), (-3600, 2, 2), (None, 2, None)]
)
def test_a_start_is_when_its_span_says_unless_that_cannot_be(ended, received, expected):
    assert started_ns(start(ended=ended, received=received)) == at(expected)


@pytest.mark.parametrize(
    ("start_ahead", "stop_ahead", "expected"),
    [(0, 0, LIVED_S - 1), (50, 50, LIVED_S), (-50, -50, LIVED_S), (0, 50, LIVED_S + 1), (50, 0, LIVED_S - 1)],
)
def test_a_deletion_began_when_its_span_says_on_the_pollers_clock(start_ahead, stop_ahead, expected):
    lifecycle, _ = lived(start_ahead=start_ahead, stop_ahead=stop_ahead, start_took=3, stop_took=1)
    assert stop_began_ns(lifecycle) == at(expected)
    ended = End(EndReason.STOPPED, lifecycle.stop.end_ns)
    assert ended_ns(lifecycle, ended) == min(at(expected + 1), lifecycle.stop.received_ns)
    assert ended_ns(lifecycle, End(EndReason.GONE, at(7))) == at(7)


def test_of_a_stop_that_does_not_say_when_it_began_nothing_is_known():
    assert stop_began_ns(Lifecycle(start=start())) is None
    assert stop_began_ns(Lifecycle(start=start(), stop=stop(ended=5, received=6))) is None
    assert ended_ns(Lifecycle(start=start(), stop=stop(received=6)), End(EndReason.STOPPED, at(6))) == at(6)
