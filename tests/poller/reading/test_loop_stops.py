"""Stops: what they end, and what of the readings around them counts."""

import asyncio

import pytest

from sandgauge_poller.tracking.progress import End
from sandgauge_schemas.names import EndReason, ErrorType
from support.reading_world import at, world
from support.virtual_time import in_virtual_time

AHEAD = [0, 50, -50, -3600]
"""How far the sender's clock may be ahead of the poller's, in s."""


@in_virtual_time
async def test_a_stop_ends_the_readings_closes_the_series_and_is_confirmed_after_the_grace():
    async with world() as w:
        await w.live(33)
        w.stop()
        w.delete()
        await w.until(332)
        assert w.finished == []
        await w.until(400)
        asked = [call for call in w.provider.calls if call.at >= 33]
        assert [(call.what, call.at) for call in asked] == [("status", 333)]
        assert w.provider.forgotten == ["s-1"]
        assert w.kinds()[-2:] == ["ended", "summary"]
        assert [round(time) for time, _ in w.finished] == [333]
        assert w.summary() == {
            "reason": "stopped",
            "rollout": None,
            "leaked": False,
            "oom_killed": None,
            "readings": len(w.sink.of("sample")),
            "missed": 0,
        }


@in_virtual_time
async def test_a_stop_that_comes_before_the_start_leaves_nothing_to_read():
    async with world() as w:
        w.stop()
        w.start()
        w.delete()
        await w.until(400)
        assert [call.what for call in w.provider.calls] == ["status"]
        assert w.kinds() == ["ended", "summary"]
        assert len(w.finished) == 1


@in_virtual_time
async def test_the_end_is_when_the_stop_span_says():
    async with world() as w:
        sandbox = await w.live(33)
        w.stop(began=29, ended=30)
        await asyncio.sleep(0.1)
        assert sandbox.progress.end == End(EndReason.STOPPED, at(30))


@in_virtual_time
async def test_a_stop_of_an_ended_sandbox_again_changes_nothing():
    async with world() as w:
        await w.live(3)
        for _ in range(3):
            w.stop()
        await w.until(4)
        w.stop()
        await w.until(5)
        assert w.kinds()[-2:] == ["ended", "summary"]
        assert w.kinds().count("ended") == 1


@pytest.mark.parametrize("ahead", AHEAD)
@in_virtual_time
async def test_a_reading_on_its_way_at_the_end_is_kept_and_the_summary_waits_for_it(ahead):
    async with world() as w:
        w.sender_ahead = ahead
        await w.live(0.5)
        w.stop()
        await w.until(0.9)
        assert w.kinds() == ["allocation", "ended"]
        await w.until(2)
        assert w.kinds() == ["allocation", "ended", "sample", "summary"]
        assert w.summary()["readings"] == 1


@pytest.mark.parametrize(("error_type", "recorded"), [(None, True), (ErrorType.NOT_FOUND, False)])
@in_virtual_time
async def test_an_allocation_on_its_way_at_the_end_is_kept_if_it_says_something(error_type, recorded):
    async with world() as w:
        w.provider["s-1"].allocation = error_type
        w.provider["s-1"].allocation_takes_s = 0.8
        await w.live(0.5)
        w.stop()
        await w.until(60)
        assert ("allocation" in w.kinds()) is recorded
        assert w.provider.times("allocation") == [0.0]


@in_virtual_time
async def test_a_summary_waits_no_longer_than_a_while_for_a_reading_that_hangs():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 1e6
        await w.live(0.5)
        w.stop()
        await w.until(10)
        assert [round(entry.at, 1) for entry in w.sink.of("summary")] == [5.5]


@pytest.mark.parametrize(("stop_began", "missed"), [(0.4, 1), (-0.5, 0)], ids=["before the stop", "after it began"])
@in_virtual_time
async def test_a_failure_on_its_way_at_the_end_is_missed_only_if_it_began_before_the_stop(stop_began, missed):
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.TIMEOUT
        await w.live(0.5)
        w.stop(began=stop_began, ended=0.5)
        await w.until(3)
        assert [entry.detail for entry in w.sink.of("sample")] == [(ErrorType.TIMEOUT, 1)] * missed
        assert w.summary()["missed"] == missed


@pytest.mark.parametrize("ahead", AHEAD)
@in_virtual_time
async def test_failures_after_the_stop_began_are_not_missed(ahead):
    async with world(collection_interval=2) as w:
        w.sender_ahead = ahead
        w.provider["s-1"].sample_takes_s = 0.1
        await w.live(20)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.until(21.9)
        before = [entry for entry in w.sink.of("sample") if entry.detail[0] is not None]
        began = w.provider.times("sample")[-1] + 0.05
        await w.until(29)
        w.stop(began=began, ended=28)
        await w.until(30)
        assert len(before) == 1
        assert w.summary()["missed"] == 1


@in_virtual_time
async def test_readings_put_off_by_back_off_until_the_stop_are_missed():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.CONNECTION
        w.provider["s-1"].sample_takes_s = 0.1
        await w.live(200)
        times = w.provider.times("sample")
        w.stop()
        await w.until(201)
        ticks = int((200 - times[-1]) // 10) + round((times[-1] - times[1]) / 10) + 2
        assert ticks > len(times)
        assert w.summary()["missed"] == ticks
