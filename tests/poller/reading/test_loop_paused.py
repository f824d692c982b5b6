"""Paused sandboxes: asked for instead of read, until they are resumed or end."""

import asyncio

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import ErrorType
from support.reading_world import world
from support.virtual_time import in_virtual_time

RUNNING, PAUSED = SandboxState.RUNNING, SandboxState.PAUSED


@in_virtual_time
async def test_a_paused_sandbox_is_not_read_and_says_so():
    async with world() as w:
        await w.live(25)
        w.provider["s-1"].state, w.provider["s-1"].sample = PAUSED, ErrorType.TIMEOUT
        await w.until(60)
        read = len(w.provider.times("sample"))
        assert w.tracked().progress.paused
        await w.until(500)
        assert len(w.provider.times("sample")) == read
        errors = [entry.detail[0] for entry in w.sink.of("sample") if entry.at > 60]
        assert len(errors) >= 7
        assert set(errors) == {ErrorType.PAUSED}
        assert w.sink.of("ended") == []
        # It is asked once for each record, and not once more for each failure.
        asked = [time for time in w.provider.times("status") if time > 60]
        assert len(asked) == len(errors)
        w.provider["s-1"].state, w.provider["s-1"].sample = RUNNING, None
        allocations = len(w.provider.times("allocation"))
        await w.until(600)
        assert not w.tracked().progress.paused
        good = [entry.at for entry in w.sink.of("sample") if entry.at > 500 and entry.detail[0] is None]
        assert good[0] < 562
        assert len(good) >= 4
        assert len(w.provider.times("allocation")) == allocations + 1


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
