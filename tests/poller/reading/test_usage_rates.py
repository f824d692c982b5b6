"""Cumulative CPU time becomes cores over the source's own time; another life and an old time stamp do not."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sandgauge_poller.reading.usage.rates import UsageWindow, mark_of, window_since
from sandgauge_poller.reading.usage.source import UsageObservation
from sandgauge_poller.tracking.progress import UsageMark

T0 = 1_795_000_000_000_000_000
SECOND = 10**9


def seen(at_s, cpu_time_s=None, **more):
    return UsageObservation(timestamp_ns=T0 + round(at_s * SECOND), cpu_time_s=cpu_time_s, **more)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, seen(0, 5.0), UsageWindow()),
        # all of a life so far is a window too, unless it has only just begun
        (None, seen(10, 5.0, started_ns=T0), UsageWindow(0.5, 10.0)),
        (None, seen(0.5, 5.0, started_ns=T0), UsageWindow()),
        (None, seen(10, 5.0, started_ns=T0 + 20 * SECOND), UsageWindow()),
        (None, seen(10, started_ns=T0), UsageWindow()),
        (seen(0, 5.0), seen(10, 11.0), UsageWindow(0.6, 10.0)),
        (seen(0, 5.0), seen(10, 5.0), UsageWindow(0.0, 10.0)),  # idle is a reading
        (seen(0, 5.0), seen(0.5, 5.1), UsageWindow(pytest.approx(0.2), 0.5)),
        # the same time stamp, or an older one, counts once however the numbers look
        (seen(10, 5.0), seen(10, 5.0), None),
        (seen(10, 5.0), seen(10, 6.0), None),
        (seen(10, 5.0), seen(9, 6.0), None),
        # less CPU time than before, or a later beginning: another life, of which no window is known yet
        (seen(0, 5.0), seen(10, 4.0), UsageWindow(is_reset=True)),
        (seen(0, 5.0, started_ns=T0), seen(10, 9.0, started_ns=T0 + SECOND), UsageWindow(is_reset=True)),
        (seen(0, 5.0), seen(10, 9.0, started_ns=T0 + SECOND), UsageWindow(is_reset=True)),
        # that the beginning is only now known, or no longer, is no other life
        (seen(5, 5.0), seen(15, 6.0, started_ns=T0), UsageWindow(0.1, 10.0)),
        (seen(5, 5.0, started_ns=T0), seen(15, 6.0), UsageWindow(0.1, 10.0)),
        # a source that does not tell CPU time for once
        (seen(0), seen(10, 6.0), UsageWindow()),
        (seen(0, 5.0), seen(10), UsageWindow()),
        # a mean of the source's own needs nothing before it
        (None, seen(0, cpu_used_cores=0.25, window_s=15.0), UsageWindow(0.25, 15.0)),
        (seen(0, cpu_used_cores=1.0), seen(15, cpu_used_cores=0.25, window_s=15.0), UsageWindow(0.25, 15.0)),
        (seen(15, cpu_used_cores=1.0), seen(15, cpu_used_cores=1.0, window_s=15.0), None),
    ],
)
def test_a_window_between_two_observations(before, now, expected):
    assert window_since(mark_of(before) if before else None, now, passed_ns=10 * SECOND) == expected


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        # set back or on, the clock tells no window; the numbers of that moment are as good as ever
        (seen(0, 5.0), seen(-3600, 6.0), UsageWindow()),
        (seen(0, 5.0), seen(3600, 6.0), UsageWindow()),
        (seen(0, 5.0), seen(-3600, 4.0), UsageWindow(is_reset=True)),
        (seen(0, 5.0, started_ns=T0 - SECOND), seen(-3600, 6.0, started_ns=T0 - SECOND), UsageWindow()),
        (seen(0, cpu_used_cores=1.0), seen(-3600, cpu_used_cores=0.25, window_s=15.0), UsageWindow(0.25, 15.0)),
        # in the new time it goes on: a life that began later than it is by now is no other one each time
        (seen(-3600, 6.0, started_ns=T0), seen(-3590, 7.0, started_ns=T0), UsageWindow(0.1, 10.0)),
        # a cluster may tell what is a little older than what it told before
        (seen(0, 5.0), seen(-30, 4.0), None),
    ],
)
def test_a_clock_that_was_set_is_no_reason_for_silence_nor_for_a_wrong_window(before, now, expected):
    assert window_since(mark_of(before), now, passed_ns=10 * SECOND) == expected


@given(st.lists(st.tuples(st.floats(0.001, 1000), st.floats(0, 64)), min_size=1, max_size=20))
def test_windows_add_up_to_the_cpu_time_that_was_used(steps):
    mark, at_s, cpu_time_s, total = UsageMark(T0, 0.0), 0.0, 0.0, 0.0
    for length_s, cores in steps:
        at_s, cpu_time_s = at_s + length_s, cpu_time_s + length_s * cores
        now = seen(at_s, cpu_time_s)
        window = window_since(mark, now, round(length_s * SECOND))
        mark = mark_of(now)
        assert not window.is_reset
        total += window.cpu_used_cores * window.window_s
    assert total == pytest.approx(cpu_time_s)


@given(before=st.floats(0, 1e6), after=st.floats(0, 1e6), length_s=st.floats(0.001, 1e6))
def test_cores_are_never_negative(before, after, length_s):
    window = window_since(mark_of(seen(0, before)), seen(length_s, after), round(length_s * SECOND))
    assume(window is not None)
    assert window.is_reset == (after < before)
    assert (window.cpu_used_cores is None) == window.is_reset
    assert window.is_reset or window.cpu_used_cores >= 0
