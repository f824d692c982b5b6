"""Paused sandboxes: asked for instead of read, until they are resumed or end."""

import asyncio

from sandgauge_poller.reading.context import PAUSED_SHARE
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.progress import dump_progress, load_progress
from sandgauge_schemas.names import ErrorType
from support.reading_world import world
from support.virtual_time import in_virtual_time

RUNNING, PAUSED = SandboxState.RUNNING, SandboxState.PAUSED


def pause(w, sandbox_id="s-1"):
    w.provider[sandbox_id].state, w.provider[sandbox_id].sample = PAUSED, ErrorType.TIMEOUT


def resume(w, sandbox_id="s-1"):
    w.provider[sandbox_id].state, w.provider[sandbox_id].sample = RUNNING, None


def errors(w, since, sandbox_id="s-1"):
    return [entry.detail[0] for entry in w.sink.of("sample", sandbox_id) if entry.at > since]


@in_virtual_time
async def test_a_paused_sandbox_is_not_read_and_says_so():
    async with world() as w:
        await w.live(25)
        pause(w)
        await w.until(60)
        read = len(w.provider.times("sample"))
        assert w.tracked().progress.paused
        await w.until(500)
        assert len(w.provider.times("sample")) == read
        # However long it lasts it is asked for at its interval, once for each record.
        assert errors(w, 60) == [ErrorType.PAUSED] * 44
        assert len([time for time in w.provider.times("status") if time > 60]) == 44
        assert w.sink.of("ended") == []


@in_virtual_time
async def test_a_resume_is_noticed_within_an_interval_and_its_allocation_is_read_again():
    async with world() as w:
        await w.live(25)
        pause(w)
        await w.until(3500)
        allocations = len(w.provider.times("allocation"))
        resume(w)
        await w.until(3560)
        assert not w.tracked().progress.paused
        good = [entry.at for entry in w.sink.of("sample") if entry.at > 3500]
        assert good[0] <= 3500 + 10 + 1.1
        assert errors(w, 3500) == [None] * len(good)
        assert len(good) >= 5
        assert len(w.provider.times("allocation")) == allocations + 1


@in_virtual_time
async def test_a_daemon_that_is_not_up_yet_after_a_resume_is_tried_again_soon():
    async with world() as w:
        await w.live(25)
        pause(w)
        await w.until(3600)
        w.provider["s-1"].state, w.provider["s-1"].sample = RUNNING, ErrorType.CONNECTION
        await w.until(3612)
        assert ErrorType.CONNECTION in errors(w, 3600)
        resume(w)
        await w.until(3635)
        assert errors(w, 3612)[-1] is None


@in_virtual_time
async def test_questions_about_many_paused_ones_take_a_part_of_the_rate():
    async with world(rate=20) as w:
        ids = [f"s-{number}" for number in range(100)]
        for sandbox_id in ids:
            pause(w, sandbox_id)
            w.start(sandbox_id)
        await w.until(200)
        await w.until(320)
        asked = [call.at for call in w.provider.calls if call.what == "status" and call.at >= 200]
        # A hundred each 10 s are 10 a second; 4 a second are a fifth of the rate.
        assert len(asked) / 120 <= PAUSED_SHARE * 20
        assert {call.sandbox_id for call in w.provider.calls if call.at >= 290} == set(ids)
        w.delete("s-0")
        resume(w, "s-1")
        await w.until(400)
        assert len(w.context.paused["training"]) == 98


@in_virtual_time
async def test_that_it_is_paused_is_known_after_a_restart():
    async with world() as w:
        await w.live(25)
        pause(w)
        await w.wait_for(lambda: w.sink.of("changed"))
        kept, event = load_progress(dump_progress(w.tracked().progress)), w.tracked().lifecycle.start
    async with world() as w:
        pause(w)
        w.restore([event], {"s-1": kept})
        await w.until(35)
        assert w.provider.times("sample") == []
        assert set(errors(w, 0)) == {ErrorType.PAUSED}
        resume(w)
        await w.until(60)
        assert errors(w, 35) == [None] * len(errors(w, 35))


@in_virtual_time
async def test_a_paused_sandbox_can_end():
    async with world() as w:
        w.provider["s-1"].state = PAUSED
        await w.live(25)
        samples = len(w.sink.of("sample"))
        w.delete()
        await w.until(200)
        assert w.summary()["reason"] == "gone"
        assert len(w.sink.of("sample")) <= samples + 2


@in_virtual_time
async def test_a_paused_sandbox_that_turns_out_to_have_ended_is_summed_up_at_once():
    async with world() as w:
        w.provider["s-1"].state = PAUSED
        await w.live(25)
        w.provider["s-1"].state = SandboxState.TERMINATED
        await w.wait_for(lambda: w.sink.of("ended"))
        await asyncio.sleep(0.1)
        assert w.summary()["reason"] == "terminated"
        assert w.sink.entries[-2].kind == "ended"
