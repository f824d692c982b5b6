"""When sandboxes are read: at once, then on their own phase, whatever their neighbours do."""

import asyncio
import logging
import math
from collections import Counter
from itertools import pairwise

import pytest

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.phase import phase
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import ErrorType
from support.reading_world import world
from support.virtual_time import START_S, in_virtual_time


def on_phase(seconds, interval, sandbox_id="s-1"):
    ticks = (START_S + seconds) / interval - phase(sandbox_id)
    return abs(ticks - round(ticks)) < 1e-6


def gaps(times):
    return [round(later - earlier, 6) for earlier, later in pairwise(times)]


@in_virtual_time
async def test_the_first_reading_comes_at_once_and_the_next_on_the_sandboxs_own_phase():
    async with world() as w:
        await w.until(3)
        w.start()
        await w.until(120)
        times = w.provider.times("sample")
    assert times[0] == 3
    assert 5 <= times[1] - 3 < 15
    assert all(on_phase(time, 10) for time in times[1:])
    assert gaps(times[1:]) == [10] * (len(times) - 2)
    assert len(times) >= 11
    assert [entry.detail for entry in w.sink.of("sample")] == [(None, 0)] * len(times)


@in_virtual_time
async def test_the_allocation_is_read_at_once_and_refreshed():
    async with world(refresh_interval=60) as w:
        w.start()
        await w.until(130)
    assert [round(time, 1) for time in w.provider.times("allocation")] == [0, 60, 120]
    assert len(w.sink.of("allocation")) == 3


@in_virtual_time
async def test_a_healthy_sandbox_is_asked_for_its_state_once():
    async with world() as w:
        w.start()
        await w.until(600)
    assert w.provider.times("status") == [2]


@in_virtual_time
async def test_a_delay_before_the_first_reading_is_kept():
    async with world(initial_delay=4, collection_jitter=2) as w:
        w.start()
        await w.until(60)
    assert 4 <= w.provider.times("sample")[0] <= 6
    assert w.provider.times("allocation")[0] == 0


@in_virtual_time
async def test_many_at_once_are_read_no_faster_than_the_rate_and_then_spread_by_their_phases():
    async with world(rate=50) as w:
        for number in range(500):
            w.start(f"s-{number}")
        await w.until(65)
    firsts = sorted(w.provider.times("sample", f"s-{number}")[0] for number in range(500))
    assert gaps(firsts) == [0.02] * 499
    late = Counter(math.floor(call.at) for call in w.provider.calls if call.what == "sample" and call.at >= 25)
    assert all(30 <= late[second] <= 70 for second in range(25, 65))


@in_virtual_time
async def test_the_time_from_start_to_first_good_reading_is_taken_once():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.HTTP_ERROR
        w.start()
        await w.until(2)
        w.provider["s-1"].sample = None
        await w.until(60)
    first_good = next(entry.at for entry in w.sink.of("sample") if entry.detail[0] is None)
    assert w.metrics.lags == [pytest.approx(first_good)]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [(10, [10, 20, 40, 60, 60, 60]), (7, [7, 14, 28, 56, 56, 56]), (40, [40] * 6), (120, [120] * 6)],
)
@in_virtual_time
async def test_a_failing_sandbox_is_read_less_often_at_most_a_minute_apart(interval, expected):
    async with world(collection_interval=interval) as w:
        w.start()
        await w.until(2 * interval)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        begun = len(w.provider.times("sample"))
        await w.until(2 * interval + sum(expected) + interval)
        times = w.provider.times("sample")[begun:]
        assert gaps(times)[: len(expected)] == expected
        assert all(on_phase(time, interval) for time in times)
        w.provider["s-1"].sample = None
        good = len(w.provider.times("sample"))
        await w.until(2 * interval + sum(expected) + 12 * interval + 120)
        assert set(gaps(w.provider.times("sample")[good:])) == {interval}
        missed = sum(entry.detail[1] for entry in w.sink.of("sample"))
        ticks = round((w.provider.times("sample")[-1] - times[0]) / interval)
        assert missed == ticks - (len(w.provider.times("sample")) - good) + 1


@in_virtual_time
async def test_an_allocation_that_cannot_be_read_is_asked_for_again_ever_less_often():
    async with world() as w:
        w.provider["s-1"].allocation = ErrorType.HTTP_ERROR
        w.start()
        await w.until(1200)
        w.provider["s-1"].allocation = ErrorType.NO_SUPPORTED_QUANTITY
        await w.until(1900)
    expected = [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300]
    assert [round(gap) for gap in gaps(w.provider.times("allocation"))] == expected


@in_virtual_time
async def test_failures_ask_for_the_state_at_most_every_five_seconds():
    async with world(collection_interval=2) as w:
        w.provider["s-1"].sample = ErrorType.TIMEOUT
        w.start()
        await w.until(30)
    asked = w.provider.times("status")
    assert len(asked) >= 3
    assert all(gap >= 5 for gap in gaps(asked))
    assert len(w.active) == 1


@in_virtual_time
async def test_a_reading_that_hangs_delays_nobody_and_is_never_started_twice():
    async with world() as w:
        for number in range(50):
            w.start(f"s-{number}")
        for number in range(10):
            w.provider[f"s-{number}"].sample_takes_s = 1e9
        await w.until(100)
    for number in range(10):
        assert len(w.provider.times("sample", f"s-{number}")) == 1
    for number in range(10, 50):
        times = w.provider.times("sample", f"s-{number}")
        assert len(times) >= 10
        assert gaps(times[1:]) == [10] * (len(times) - 2)
    assert max(w.metrics.latenesses) < 1e-6


@in_virtual_time
async def test_a_reading_that_takes_longer_than_its_interval_skips_ticks_and_counts_them():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 25.0
        w.start()
        await w.until(200)
    times, records = w.provider.times("sample"), w.sink.of("sample")
    assert gaps(times[1:]) == [30] * (len(times) - 2)
    assert [entry.detail for entry in records[2:]] == [(None, 2)] * len(records[2:])


@in_virtual_time
async def test_a_fault_of_our_own_is_logged_and_tried_again_and_stops_nothing(caplog):
    async with world() as w:
        w.provider["s-1"].sample = RuntimeError("a bug")
        w.sink.failures["allocation"] = 1
        w.start()
        w.start("s-2")
        await w.until(35)
        w.provider["s-1"].sample = None
        await w.until(100)
        good = [entry for entry in w.sink.of("sample") if entry.detail[0] is None]
    assert w.provider.times("sample")[:4] == [0, 10, 20, 30]
    assert len(good) >= 5
    assert len(w.sink.of("sample", "s-2")) >= 9
    assert len(w.sink.of("allocation")) + len(w.sink.of("allocation", "s-2")) == 2
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert any("it is tried again in 10 s" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("interval", [2, 30])
@in_virtual_time
async def test_after_a_record_that_the_disk_could_not_take_the_next_reading_comes_within_an_interval(interval, caplog):
    async with world() as w:
        w.start(hint=interval)
        await w.until(3 * interval)
        refusals, record = iter(range(3)), w.sink.sample

        async def sample(*reading, is_final):
            if next(refusals, None) is not None:
                raise StateError("make room")
            await record(*reading, is_final=is_final)

        w.sink.sample = sample
        await w.until(10 * interval)
        times = w.provider.times("sample")
        assert set(gaps(times[1:])) == {interval}
        assert len(w.sink.of("sample")) == len(times) - 3
        assert caplog.records == [], "the store tells of it"


@in_virtual_time
async def test_stopping_cancels_readings_in_flight():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 1e9
        w.start()
        await w.until(5)
        await w.loop.stop()
        assert w.loop._running == {}
    assert w.sink.of("sample") == []


@pytest.mark.parametrize(("hint", "interval"), [(30, 30), (2, 2), (0.1, 2), (None, 10)])
@in_virtual_time
async def test_the_runs_own_interval_is_followed_down_to_the_least(hint, interval):
    async with world() as w:
        w.start(hint=hint)
        await w.until(10 * interval)
        assert set(gaps(w.provider.times("sample")[1:])) == {interval}


@in_virtual_time
async def test_an_interval_beyond_all_life_is_read_once_and_breaks_nothing(caplog):
    async with world() as w:
        w.start(hint=1e308)
        w.provider["s-1"].sample = ErrorType.TIMEOUT
        await w.until(1000)
        assert w.provider.times("sample") == [0]
    assert caplog.records == []


@pytest.mark.parametrize(
    ("settings", "sandbox"),
    [
        ({}, {"hint": 0}),
        ({"collection_interval": 0}, {}),
        ({"collection_interval": 0}, {"hint": 5}),
        ({}, {"provider": "fake"}),
    ],
    ids=["hint 0", "interval 0", "interval 0 beats a hint", "no such deployment"],
)
@in_virtual_time
async def test_what_is_not_to_be_read_is_let_alone_until_its_stop(settings, sandbox):
    async with world(**settings) as w:
        tracked = w.start(rollout="7-0", **sandbox)
        w.end_rollout()
        await w.until(1000)
        assert w.provider.calls == []
        assert len(w.active) == 1
        if tracked.deployment is not None:
            w.stop()
            await w.until(1001)
            assert w.finished == [(1000, "s-1")]
    assert w.provider.calls == w.sink.entries == []


@in_virtual_time
async def test_where_slots_cannot_carry_the_sandboxes_intervals_stretch_evenly_and_it_is_said_once(caplog):
    async with world() as w:
        w.provider.slots = 2
        for number in range(100):
            w.start(f"s-{number}", hint=5 if number < 50 else 10)
        await w.until(400)
        # 50 readings in 5 s and 50 in 10 s, of 1.1 s each, on 2 slots
        stretch = (50 / 5 + 50 / 10) * 1.1 / 2
        assert w.context.stretch("training") == pytest.approx(stretch)
        for number, interval in ((0, 5), (99, 10)):
            assert gaps(w.provider.times("sample", f"s-{number}"))[2:] == pytest.approx(
                [interval * stretch] * (len(w.provider.times("sample", f"s-{number}")) - 3), rel=1e-6
            )
        for number in range(99):
            w.stop(f"s-{number}")
        await w.until(401)
        assert w.context.stretch("training") == 1.0
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "training" in record.getMessage()
    assert "max_concurrent_proxied_reads" in record.getMessage()


@in_virtual_time
async def test_without_a_bound_on_slots_nothing_is_stretched():
    async with world() as w:
        for number in range(200):
            w.start(f"s-{number}")
        assert w.context.stretch("training") == 1.0


@in_virtual_time
async def test_nothing_of_a_sandbox_is_kept_once_it_is_done_with():
    async with world() as w:
        for number in range(20):
            w.start(f"s-{number}", rollout="7-0")
        await w.until(15)
        for number in range(20):
            w.stop(f"s-{number}")
            w.provider[f"s-{number}"].state = SandboxState.NOT_FOUND
        await w.until(400)
        assert len(w.finished) == 20
        assert (w.context.paces, len(w.context.loads["training"]), w.loop._running) == ({}, 0, {})
        assert w.context.schedule._pending == {}
        assert len(w.active) == 0


@in_virtual_time
async def test_the_loop_waits_for_events_without_a_deadline():
    async with world() as w:
        await asyncio.sleep(10_000)
        w.start()
        await w.until(10_001)
        assert w.provider.times("sample") == [10_000]
