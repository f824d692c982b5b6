"""What outlives its stop or its rollout has leaked, and is read on."""

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import ErrorType
from support.reading_world import world
from support.virtual_time import in_virtual_time

RUNNING, PAUSED = SandboxState.RUNNING, SandboxState.PAUSED
OTHER_TRACE, THIRD_TRACE = b"\x02" * 16, b"\x03" * 16


@in_virtual_time
async def test_what_is_still_there_after_its_stop_is_a_leak_and_is_read_until_it_really_ends():
    async with world() as w:
        sandbox = await w.live(33)
        w.stop()
        await w.until(332)
        assert w.kinds()[-2:] == ["ended", "summary"]
        assert not w.sink.of("summary")[0].detail["leaked"]
        read = len(w.provider.times("sample"))
        await w.until(400)
        assert sandbox.progress.leaked
        assert sandbox.progress.end is None
        assert 333 <= w.provider.times("sample")[read] < 334
        assert [entry.detail for entry in w.sink.of("sample")] == [(None, 0)] * len(w.sink.of("sample"))
        w.stop()  # a second one ends nothing by itself, but it is looked into
        await w.until(410)
        assert sandbox.progress.end is None
        assert [time for time in w.provider.times("status") if time >= 400] == [400]
        w.delete()
        await w.until(500)
        first, second = w.sink.of("summary")
        assert (first.detail["reason"], second.detail["reason"]) == ("stopped", "gone")
        assert second.detail["leaked"]
        assert second.detail["readings"] > first.detail["readings"]
        assert len(w.sink.of("ended")) == 2
        assert len(w.finished) == 1


@in_virtual_time
async def test_a_leak_that_is_paused_is_still_a_leak():
    async with world() as w:
        await w.live(33)
        w.stop()
        w.provider["s-1"].state = PAUSED
        await w.until(400)
        assert w.tracked().progress.leaked
        assert {entry.detail[0] for entry in w.sink.of("sample") if entry.at > 300} == {ErrorType.PAUSED}


@in_virtual_time
async def test_what_lives_past_the_grace_of_its_rollout_is_a_leak_and_is_read_on():
    async with world() as w:
        sandbox = await w.live(33, root=False)
        w.end_rollout()
        await w.until(332)
        assert not sandbox.progress.leaked
        await w.until(500)
        assert sandbox.progress.leaked
        assert [round(time) for time in w.provider.times("status")] == [2, 333]
        assert len(w.sink.of("sample")) >= 49
        w.stop()
        w.delete()
        await w.until(501)
        assert w.summary()["leaked"]
        assert w.summary()["rollout"] == "7-0"


@in_virtual_time
async def test_a_leak_check_of_a_sandbox_that_ended_in_time_asks_nothing():
    async with world() as w:
        await w.live(33, root=False)
        w.end_rollout()
        w.stop()
        w.delete()
        await w.until(400)
        assert [round(time) for time in w.provider.times("status")] == [2, 333]
        assert not w.summary()["leaked"]


@in_virtual_time
async def test_a_leak_check_is_made_again_until_the_control_plane_answers():
    async with world() as w:
        sandbox = await w.live(33, root=False)
        w.end_rollout()
        w.provider["s-1"].state = None
        await w.until(360)
        assert not sandbox.progress.leaked
        w.provider["s-1"].state = RUNNING
        await w.until(364)
        assert sandbox.progress.leaked


@in_virtual_time
async def test_a_rollout_is_that_of_its_run_in_whichever_trace_and_no_other_of_the_same_trace():
    async with world() as w:
        w.start("of-the-run", run="run-1", rollout="7-0", root=False)
        w.start("of-another", run="run-2", rollout="7-0", root=False, trace_id=THIRD_TRACE)
        w.start("beside-it", run="run-1", rollout="8-0", root=False, trace_id=OTHER_TRACE)
        await w.until(33)
        w.end_rollout("7-0", trace_id=OTHER_TRACE, run="run-1")
        await w.until(400)
        leaked = {sandbox.key.sandbox_id: sandbox.progress.leaked for sandbox in w.active}
        assert leaked == {"of-the-run": True, "of-another": False, "beside-it": False}
