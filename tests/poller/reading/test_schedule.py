"""Who is due, and when."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.schedule import (
    LONGEST_BACK_OFF_S,
    Due,
    Load,
    Pacer,
    Schedule,
    Task,
    back_off,
    next_on_phase,
)
from sandgauge_poller.tracking.phase import phase

intervals = st.floats(0.5, 3600)
times = st.floats(0, 1e7)
tasks = st.sampled_from(Task)
keys = st.sampled_from(["a", "b", "c"])


def test_what_is_due_comes_in_order_and_once():
    schedule = Schedule()
    for at, key in ((3.0, "c"), (1.0, "a"), (2.0, "b"), (9.0, "later")):
        schedule.put(key, Task.SAMPLE, at)
    assert schedule.next_due() == 1.0
    due = [Due("a", Task.SAMPLE, 1.0), Due("b", Task.SAMPLE, 2.0), Due("c", Task.SAMPLE, 3.0)]
    assert schedule.pop_due(3.0) == due
    assert schedule.pop_due(3.0) == []
    assert schedule.next_due() == 9.0


@pytest.mark.parametrize("at", [1.0, 5.0, 9.0])
def test_the_latest_word_on_a_task_counts(at):
    schedule = Schedule()
    schedule.put("a", Task.SAMPLE, 5.0)
    schedule.put("a", Task.STATUS, 5.0)
    schedule.put("a", Task.SAMPLE, at)
    assert schedule.at("a", Task.SAMPLE) == at
    assert Counter((due.task, due.at) for due in schedule.pop_due(10.0)) == {
        (Task.SAMPLE, at): 1,
        (Task.STATUS, 5.0): 1,
    }
    assert schedule.next_due() is None


def test_tasks_are_dropped_by_name_or_all_at_once():
    schedule = Schedule()
    for key in ("a", "b"):
        for task in Task:
            schedule.put(key, task, 1.0)
    schedule.drop("a", Task.SAMPLE, Task.STATUS)
    schedule.drop("b")
    schedule.drop("unknown")
    assert {due.task for due in schedule.pop_due(1.0)} == set(Task) - {Task.SAMPLE, Task.STATUS}
    assert schedule.at("a", Task.SAMPLE) is None
    assert schedule.next_due() is None


@given(
    steps=st.lists(
        st.tuples(st.just("put"), keys, tasks, st.floats(0, 100))
        | st.tuples(st.just("drop"), keys, st.none() | tasks, st.none())
        | st.tuples(st.just("pop"), st.none(), st.none(), st.floats(0, 100))
    )
)
def test_the_queue_is_a_dictionary_of_times(steps):
    schedule, expected = Schedule(), {}
    for step, key, task, at in steps:
        if step == "put":
            schedule.put(key, task, at)
            expected[key, task] = at
        elif step == "drop":
            schedule.drop(key, *([task] if task else []))
            expected = {entry: time for entry, time in expected.items() if entry != (key, task or entry[1])}
        else:
            found = schedule.pop_due(at)
            assert [due.at for due in found] == sorted(due.at for due in found)
            assert {(due.key, due.task): due.at for due in found} == {e: t for e, t in expected.items() if t <= at}
            expected = {entry: time for entry, time in expected.items() if time > at}
        assert schedule.next_due() == min(expected.values(), default=None)
        assert all(schedule.at(*entry) == time for entry, time in expected.items())


def test_words_that_were_taken_back_do_not_pile_up():
    schedule = Schedule()
    for number in range(50_000):
        schedule.put("a", Task.STATUS, 1e6 + number)
        schedule.put(f"gone-{number}", Task.SAMPLE, 2e6)
        schedule.drop(f"gone-{number}")
    assert len(schedule._heap) < 2000
    assert len(schedule._pending) == 1
    assert schedule.pop_due(3e6) == [Due("a", Task.STATUS, 1e6 + 49_999)]


def test_phases_of_a_fleet_are_spread_evenly():
    fleet = [phase(f"5e0d0000-0000-4000-8000-{number:012x}") for number in range(10_000)]
    assert all(0 <= own < 1 for own in fleet)
    tenths = Counter(math.floor(own * 10) for own in fleet)
    assert all(850 < count < 1150 for count in tenths.values())


def test_a_phase_is_the_sandboxs_own_for_ever():
    assert phase("s-1") == phase("s-1") != phase("s-2")


@given(after=times, interval=intervals, own=st.floats(0, 1, exclude_max=True))
def test_the_next_tick_is_on_phase_and_at_least_half_an_interval_away(after, interval, own):
    at = next_on_phase(after, interval, own)
    slack = 1e-9 * max(1.0, after)
    assert 0.5 * interval - slack <= at - after < 1.5 * interval + slack
    ticks = at / interval - own
    assert ticks == pytest.approx(round(ticks), abs=1e-6)


@given(after=st.integers(0, 10_000), interval=intervals, own=st.floats(0, 1, exclude_max=True))
def test_from_tick_to_tick_it_is_one_interval(after, interval, own):
    tick = (after + own) * interval
    assert next_on_phase(tick, interval, own) == pytest.approx(tick + interval)


@pytest.mark.parametrize(
    ("interval", "waits"),
    [
        (10, [10, 20, 40, 60, 60]),
        (2, [2, 4, 8, 16, 32, 60, 60]),
        (45, [45, 60, 60]),
        (300, [300, 300, 300]),
    ],
)
def test_back_off_doubles_up_to_a_minute_or_the_interval(interval, waits):
    assert [back_off(interval, failures) for failures in range(len(waits))] == waits


@given(interval=st.floats(1e-3, 1e308), failures=st.integers(0, 10**9))
def test_back_off_stays_within_its_bounds(interval, failures):
    assert interval <= back_off(interval, failures) <= max(LONGEST_BACK_OFF_S, interval)


def test_a_pacer_keeps_its_distance_and_saves_nothing_up():
    pacer = Pacer(rate=4.0)
    assert [pacer.claim(100.0) for _ in range(3)] == [100.0, 100.25, 100.5]
    assert pacer.claim(100.6) == 100.75
    assert [pacer.claim(200.0) for _ in range(2)] == [200.0, 200.25]


@given(steps=st.lists(st.tuples(keys, st.none() | st.floats(2, 600))))
def test_a_load_is_the_sum_of_what_is_asked(steps):
    load, expected = Load(), {}
    for key, interval in steps:
        if interval is None:
            load.remove(key)
            expected.pop(key, None)
        else:
            load.add(key, interval)
            expected[key] = 1 / interval
        assert len(load) == len(expected)
        assert load.reads_per_second == pytest.approx(sum(expected.values()), abs=1e-9)
    for key in "abc":
        load.remove(key)
    assert load.reads_per_second == 0.0
