import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.limits import RateLimit


class ManualClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.clock = Clock(monotonic=lambda: self.now, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


async def starts(limit: RateLimit, time: ManualClock, count: int) -> list[float]:
    times = []
    for _ in range(count):
        await limit.wait()
        times.append(time.now - 100.0)
    return times


async def test_a_burst_as_large_as_the_rate_passes_at_once_and_the_next_waits_a_second():
    time = ManualClock()
    assert await starts(RateLimit(3, time.clock), time, 7) == [0, 0, 0, 1, 1, 1, 2]


async def test_a_rate_below_one_spaces_single_starts():
    time = ManualClock()
    assert await starts(RateLimit(0.5, time.clock), time, 3) == [0, 2, 4]


async def test_a_rate_between_whole_numbers_is_rounded_down():
    time = ManualClock()
    assert await starts(RateLimit(2.5, time.clock), time, 4) == [0, 0, 1, 1]


async def test_idle_time_is_not_saved_up():
    time = ManualClock()
    limit = RateLimit(2, time.clock)
    await starts(limit, time, 2)
    time.now = 1000.0
    assert [at - 900.0 for at in await starts(limit, time, 4)] == [0, 0, 1, 1]


@given(
    rate=st.floats(0.1, 50),
    pauses=st.lists(st.floats(0, 2), min_size=1, max_size=80),
)
async def test_no_second_holds_more_than_the_rate(rate, pauses):
    time = ManualClock()
    limit = RateLimit(rate, time.clock)
    times = []
    for pause in pauses:
        time.now += pause
        await limit.wait()
        times.append(time.now)
    for first in times:
        within = [at for at in times if first <= at < first + 1 - 1e-6]
        assert len(within) <= max(1, rate)


@pytest.mark.parametrize("count", [1, 5])
async def test_a_start_that_is_free_does_not_sleep(count):
    time = ManualClock()
    await starts(RateLimit(5, time.clock), time, count)
    assert time.now == 100.0
