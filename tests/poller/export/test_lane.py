"""Back-off of one signal, and what it says of an outage."""

import logging

import pytest

from sandgauge_poller.export.answer import Outcome, Verdict
from sandgauge_poller.export.lane import Lane
from sandgauge_poller.logs import RepeatsCounted
from sandgauge_schemas.names import Signal

RETRY = Outcome(verdict=Verdict.RETRY, detail="timeout")
DELIVERED = Outcome(verdict=Verdict.DELIVERED)


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lane(clock):
    return Lane(Signal.TRACES, initial_interval_s=1.0, max_interval_s=30.0, monotonic=clock)


def waits(lane, clock, outcomes):
    found = []
    for outcome in outcomes:
        lane.note(outcome)
        found.append(lane.due_s - clock.now_s)
        clock.now_s = max(clock.now_s, lane.due_s)
    return found


def test_waits_grow_to_the_longest_and_start_again_after_a_success(lane, clock):
    grown = waits(lane, clock, [RETRY] * 12)
    for wait, low in zip(grown, [1.5**n for n in range(9)], strict=False):
        assert low <= wait <= low + 0.5
    assert all(30.0 <= wait <= 30.5 for wait in grown[9:])
    lane.note(DELIVERED)
    assert lane.due_s == 0.0
    assert 1.0 <= waits(lane, clock, [RETRY])[0] <= 1.5


def test_waits_differ_so_that_pollers_do_not_march_in_step(clock):
    def first_wait():
        fresh = Lane(Signal.TRACES, initial_interval_s=1.0, max_interval_s=30.0, monotonic=clock)
        return waits(fresh, clock, [RETRY])[0]

    assert len({round(first_wait(), 6) for _ in range(10)}) > 1


@pytest.mark.parametrize("asked_s", [0.1, 5.0, 3600.0])
def test_a_wait_that_was_asked_for_wins(lane, clock, asked_s):
    asked = Outcome(verdict=Verdict.RETRY, retry_after_s=asked_s, detail="HTTP 503")
    assert waits(lane, clock, [RETRY, RETRY, asked])[2] == pytest.approx(asked_s)


def test_a_refusal_for_good_holds_nothing_up(lane):
    lane.note(RETRY)
    lane.note(Outcome(verdict=Verdict.REJECTED, detail="HTTP 400"))
    assert lane.due_s == 0.0


def test_faults_are_logged_as_one_whatever_their_detail(lane, caplog):
    for detail in ("timeout", "HTTP 503"):
        lane.note(Outcome(verdict=Verdict.RETRY, detail=detail))
    lane.note(Outcome(verdict=Verdict.REJECTED, detail="HTTP 401; check export.headers"))
    assert [record.getMessage() for record in caplog.records] == [
        "export of traces: not delivered, will be sent again: timeout",
        "export of traces: not delivered, will be sent again: HTTP 503",
        "export of traces: refused for good, counted as rejected: HTTP 401; check export.headers",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    kept = RepeatsCounted()
    assert [kept.filter(record) for record in caplog.records] == [True, False, True]


@pytest.mark.parametrize(
    ("rejected", "detail", "said"),
    [
        (3, "too many attributes", "3 refused; too many attributes"),
        (3, "", "3 refused"),
        (0, "soon deprecated", "soon deprecated"),
    ],
)
def test_a_success_is_not_logged_unless_something_was_refused_or_said(lane, caplog, rejected, detail, said):
    lane.note(DELIVERED)
    assert not caplog.records
    lane.note(Outcome(verdict=Verdict.DELIVERED, rejected=rejected, detail=detail))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == f"export of traces: delivered with a remark: {said}"
