"""The last hour of one quantity: what is kept, and what it costs."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.tracking.recent import MINUTES, Hour, Recent, minute_of

WRITES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 1000)), max_size=60)


def expected(kept, newest):
    points = [kept.get(minute) for minute in range(newest - MINUTES + 1, newest + 1)]
    while points and points[0] is None:
        points.pop(0)
    return points


@given(WRITES, st.integers(0, 70))
def test_the_highest_of_each_minute_of_the_last_hour_is_kept(writes, later):
    hour, kept, newest = Hour(), {}, 1000
    for ahead, value in writes:
        newest += ahead
        kept[newest] = max(kept.get(newest, 0), value)
        hour.raise_to(newest, value)
    assert hour.until(newest + later) == expected(kept, newest + later)


@given(WRITES)
def test_a_total_is_that_of_its_minute(writes):
    hour, kept, newest = Hour(), {}, 1000
    for ahead, value in writes:
        newest += ahead
        kept[newest] = kept.get(newest, 0) + value
        hour.add(newest, value)
    assert hour.until(newest) == expected(kept, newest)


def test_a_minute_without_a_reading_is_absent_and_not_zero():
    hour = Hour()
    hour.raise_to(100, 0.0)
    hour.raise_to(103, 2.0)
    assert hour.until(104) == [0.0, None, None, 2.0, None]


def test_a_reading_of_a_little_earlier_is_put_where_it_belongs():
    hour = Hour()
    hour.raise_to(100, 1.0)
    hour.raise_to(102, 3.0)
    hour.raise_to(101, 2.0)
    assert hour.until(102) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("back", [MINUTES, 990])
def test_a_clock_that_is_set_back_by_the_hour_begins_anew(back):
    hour = Hour()
    hour.raise_to(1000, 1.0)
    hour.raise_to(1000 - back, 2.0)
    assert hour.until(1000 - back) == [2.0]
    hour.raise_to(1001 - back, 3.0)
    assert hour.until(1001 - back) == [2.0, 3.0]


def test_a_sandbox_costs_two_kilobytes_at_most():
    hour = Hour()
    for minute in range(1000, 1060):
        hour.raise_to(minute, 1.5)
    assert sys.getsizeof(Recent()) + 4 * (sys.getsizeof(hour) + sys.getsizeof(hour._points)) < 2000


def test_minutes_are_those_since_the_epoch():
    assert minute_of(0) == 0
    assert minute_of(59_999_999_999) == 0
    assert minute_of(60_000_000_000) == 1
