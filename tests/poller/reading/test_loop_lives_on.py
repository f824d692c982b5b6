"""Sandboxes that are not deleted after their reading before deletion are read on."""

import asyncio
from itertools import pairwise

import pytest

from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.phase import phase
from sandgauge_schemas.names import ErrorType
from support.reading_world import world
from support.virtual_time import START_S, in_virtual_time

RECORDED, NOT_READ = FinalReading.RECORDED, FinalReading.NOT_READ
NOT_FOUND, RUNNING, PAUSED = SandboxState.NOT_FOUND, SandboxState.RUNNING, SandboxState.PAUSED


def on_phase(seconds, interval=10):
    ticks = (START_S + seconds) / interval - phase("s-1")
    return abs(ticks - round(ticks)) < 1e-6


@in_virtual_time
async def test_a_stop_that_failed_lets_it_be_read_on_at_once():
    async with world() as w:
        asked = await w.read_before_deletion()
        await w.until(asked + 20)
        w.stop(failed=True)
        await w.until(asked + 100)
        times = [time for time in w.provider.times("sample") if time > asked]
        assert asked + 20 <= times[0] < asked + 30
        assert all(on_phase(time) for time in times)
        assert [round(later - earlier, 6) for earlier, later in pairwise(times)] == [10] * (len(times) - 1)
        assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}
        assert len(w.final()) == 1
        assert len(w.provider.times("status")) == 1  # nobody asks: the stop has said it


@in_virtual_time
async def test_a_stop_that_failed_before_the_reading_was_asked_for_changes_nothing():
    async with world() as w:
        asked = await w.live_between_readings()
        reading = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.5)
        w.stop(failed=True)
        assert await reading is RECORDED
        await w.until(asked + 29)
        assert w.since(asked) == [("sample", 0)]
        assert len(w.final()) == 1


@pytest.mark.parametrize("state", [RUNNING, SandboxState.PENDING, None], ids=["running", "pending", "no answer"])
@in_virtual_time
async def test_without_a_stop_it_is_read_on_once_its_state_was_asked_for(state):
    async with world() as w:
        asked = await w.read_before_deletion()
        w.provider["s-1"].state = state
        await w.until(asked + 100)
        calls = w.since(asked)
        assert calls[:2] == [("sample", 0), ("status", 30)]
        assert [when for what, when in calls[2:] if what == "sample"] == [37, 47, 57, 67, 77, 87, 97]
        assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}
        assert len(w.final()) == 1


@in_virtual_time
async def test_without_a_stop_a_sandbox_that_is_gone_has_ended_and_missed_nothing():
    async with world() as w:
        asked = await w.read_before_deletion()
        w.delete(error=ErrorType.CONNECTION)
        await w.until(asked + 100)
        assert [(what, round(when)) for what, when in w.since(asked)] == [
            ("sample", 0),
            ("status", 30),
            ("status", 35),
        ]
        assert (w.summary()["reason"], w.summary()["missed"]) == ("gone", 0)
        assert len(w.finished) == 1


@in_virtual_time
async def test_a_sandbox_that_takes_long_to_go_is_not_read_meanwhile():
    async with world() as w:
        asked = await w.read_before_deletion()
        w.delete(error=ErrorType.CONNECTION)
        w.provider["s-1"].state = SandboxState.STOPPING
        await w.until(asked + 80)
        w.provider["s-1"].state = NOT_FOUND
        await w.until(asked + 100)
        calls = w.since(asked)
        assert [what for what, _ in calls] == ["sample"] + ["status"] * (len(calls) - 1)
        assert all(later - earlier >= 5 for (_, earlier), (_, later) in pairwise(calls))
        assert (w.summary()["reason"], w.summary()["missed"]) == ("gone", 0)


@in_virtual_time
async def test_one_that_turns_out_to_be_paused_is_watched_as_any_other():
    async with world() as w:
        asked = await w.read_before_deletion()
        w.provider["s-1"].state = PAUSED
        await w.until(asked + 60)
        assert {entry.detail[0] for entry in w.sink.of("sample") if entry.at > asked + 2} == {ErrorType.PAUSED}
        w.provider["s-1"].state = RUNNING
        await w.until(asked + 200)
        assert w.sink.of("sample")[-1].detail == (None, 0)


@in_virtual_time
async def test_only_what_failed_since_it_was_read_on_is_taken_back_when_it_ends():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 0.1
        await w.live(20)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.wait_for(lambda: sum(entry.detail[1] for entry in w.sink.of("sample")) == 2)
        w.provider["s-1"].sample = None
        asked = await w.between_readings(w.provider.times("sample")[-1])
        await w.loop.final_reading("s-1")
        await w.until(asked + 25)
        w.stop(failed=True)
        w.delete(error=ErrorType.CONNECTION)
        await w.until(asked + 100)
        # Two that failed while it was alive, and the one that their back-off put off.
        assert (w.summary()["reason"], w.summary()["missed"]) == ("gone", 3)


@in_virtual_time
async def test_a_question_that_crosses_the_next_wish_to_delete_does_not_read_it_on():
    async with world() as w:
        asked = await w.read_before_deletion()
        await w.until(asked + 30.005)  # the question is on its way
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(asked + 60)
        assert [what for what, _ in w.since(asked)] == ["sample", "status", "sample"]


@in_virtual_time
async def test_a_leak_is_read_on_after_its_last_reading_and_can_have_another():
    async with world() as w:
        asked = await w.read_before_deletion()
        w.stop()
        await w.until(asked + 400)
        assert w.tracked().progress.leaked
        later = [entry for entry in w.sink.of("sample") if entry.at > asked + 300]
        assert len(later) >= 9
        assert [entry.is_final for entry in later] == [False] * len(later)
        assert await w.loop.final_reading("s-1") is RECORDED
        assert len(w.final()) == 2


@in_virtual_time
async def test_stopping_cancels_it():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 1e9
        w.start()
        reading = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(5)
        await w.loop.stop()
        assert w.loop._running == {}
        assert not reading.done()
        reading.cancel()
