"""Ends that the control plane tells, and what is no end."""

import asyncio

import pytest

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import ErrorType
from support.reading_world import at, world
from support.virtual_time import in_virtual_time

NOT_FOUND, RUNNING = SandboxState.NOT_FOUND, SandboxState.RUNNING


@pytest.mark.parametrize(
    ("expires_at", "reason"), [(None, "gone"), (at(1000), "gone"), (at(20), "expired"), (at(-100), "expired")]
)
@in_virtual_time
async def test_not_found_twice_is_the_end(expires_at, reason):
    async with world() as w:
        w.provider["s-1"].expires_at_ns = expires_at
        await w.live(25)
        assert len(w.active) == 1
        w.delete()
        w.provider["s-1"].expires_at_ns = None
        await w.until(60)
        asked = [time for time in w.provider.times("status") if time > 25]
        assert len(asked) == 2
        assert asked[1] - asked[0] >= 5
        assert w.kinds()[-2:] == ["ended", "summary"]
        assert w.summary()["reason"] == reason
        assert w.summary()["missed"] == 0
        assert len(w.finished) == 1
        calls = len(w.provider.calls)
        await w.until(1000)
        assert len(w.provider.calls) == calls


@in_virtual_time
async def test_not_found_once_and_then_there_is_no_end():
    async with world() as w:
        await w.live(25)
        w.delete()
        await w.wait_for(lambda: len(w.provider.times("status")) == 2)
        w.provider["s-1"].state = RUNNING
        await w.until(60)
        w.provider["s-1"].sample = None
        await w.until(200)
        assert w.tracked().progress.not_found_ns is None
        assert w.sink.of("ended") == []
        assert w.sink.entries[-1].kind == "sample"


@in_virtual_time
async def test_a_daemons_not_found_is_no_end_while_the_control_plane_has_it():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.NOT_FOUND
        await w.live(500)
        assert w.sink.of("ended") == []
        assert len(w.active) == 1


@in_virtual_time
async def test_a_control_plane_that_does_not_answer_ends_nothing():
    async with world() as w:
        await w.live(25)
        w.delete(error=ErrorType.TIMEOUT)
        w.provider["s-1"].state = None
        await w.until(500)
        assert w.sink.of("ended") == []
        w.provider["s-1"].state = NOT_FOUND
        await w.until(600)
        assert w.summary()["reason"] == "gone"


@in_virtual_time
async def test_failures_while_the_control_plane_still_had_it_are_missed_and_later_ones_are_not():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 0.1
        await w.live(20)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.wait_for(lambda: any(entry.detail[0] for entry in w.sink.of("sample")))
        await asyncio.sleep(1)  # the state was asked for and it was there
        w.delete()
        await w.until(100)
        assert w.summary()["missed"] == 1
        assert len([entry for entry in w.sink.of("sample") if entry.detail[0]]) > 1


@pytest.mark.parametrize(
    ("state", "reason"), [(SandboxState.TERMINATED, "terminated"), (SandboxState.FAILED, "failed")]
)
@pytest.mark.parametrize("oom_killed", [True, False, None])
@in_virtual_time
async def test_an_entrypoint_that_ended_is_the_end_and_inspect_says_whether_memory_was_why(state, reason, oom_killed):
    async with world() as w:
        await w.live(25)
        w.provider["s-1"].state = state
        w.provider["s-1"].sample = ErrorType.HTTP_ERROR
        w.provider["s-1"].oom_killed = oom_killed
        await w.until(100)
        assert (w.summary()["reason"], w.summary()["oom_killed"]) == (reason, oom_killed)
        assert w.kinds()[-2:] == ["ended", "summary"]
        assert w.finished == []
        w.provider["s-1"].state = NOT_FOUND
        await w.until(400)
        assert len(w.finished) == 1


def fail(w, sandbox_id="s-1", oom_killed=False):
    w.provider[sandbox_id].state = SandboxState.FAILED
    w.provider[sandbox_id].sample = ErrorType.HTTP_ERROR
    w.provider[sandbox_id].oom_killed = oom_killed


async def failure_is_told(w):
    """Return when the control plane has said for the first time that the container is over."""
    before = len(w.provider.times("status"))
    fail(w)
    await w.wait_for(lambda: len(w.provider.times("status")) > before)


@in_virtual_time
async def test_a_deletion_that_looks_like_a_failure_on_its_way_is_none():
    async with world() as w:
        await w.live(25)
        await failure_is_told(w)
        w.delete()
        await w.until(100)
        assert w.summary()["reason"] == "gone"


@in_virtual_time
async def test_a_stop_is_the_reason_of_what_looked_like_a_failure_while_it_was_carried_out():
    async with world() as w:
        await w.live(25)
        await failure_is_told(w)
        w.stop(began=25)
        w.delete()
        await w.until(400)
        assert w.summary()["reason"] == "stopped"


@in_virtual_time
async def test_what_had_failed_before_it_was_stopped_has_failed():
    async with world() as w:
        await w.live(25)
        await failure_is_told(w)
        told = w.provider.times("status")[-1]
        w.stop(began=told + 1)
        w.delete()
        await w.until(400)
        assert (w.summary()["reason"], w.summary()["oom_killed"]) == ("failed", False)


@in_virtual_time
async def test_a_failure_is_believed_when_it_is_told_again_five_seconds_later_and_is_as_old_as_the_first_word():
    async with world() as w:
        await w.live(25)
        await failure_is_told(w)
        told = w.provider.times("status")[-1]
        await w.until(100)
        (ended,) = w.sink.of("ended")
        assert ended.at - told == pytest.approx(5, abs=0.1)
        assert w.tracked().progress.end.at_ns == pytest.approx(at(told), abs=0.1e9)


@in_virtual_time
async def test_a_kill_for_memory_needs_no_second_word():
    async with world() as w:
        await w.live(25)
        before = len(w.provider.times("status"))
        fail(w, oom_killed=True)
        await w.wait_for(lambda: len(w.sink.of("summary")) == 1)
        assert len(w.provider.times("status")) == before + 1
        assert (w.summary()["reason"], w.summary()["oom_killed"]) == ("failed", True)


@in_virtual_time
async def test_a_failure_that_was_none_is_forgotten():
    async with world() as w:
        await w.live(25)
        await failure_is_told(w)
        w.provider["s-1"].state, w.provider["s-1"].sample = SandboxState.RUNNING, None
        await w.until(60)
        w.provider["s-1"].oom_killed = None
        w.stop()
        w.delete()
        await w.until(400)
        assert (w.summary()["reason"], w.summary()["oom_killed"]) == ("stopped", None)


@pytest.mark.parametrize("state", [SandboxState.STOPPING, SandboxState.UNKNOWN])
@in_virtual_time
async def test_a_sandbox_that_is_going_is_asked_for_until_it_is_gone(state):
    async with world() as w:
        await w.live(25)
        w.provider["s-1"].state, w.provider["s-1"].sample = state, ErrorType.CONNECTION
        await w.until(60)
        assert w.sink.of("ended") == []
        assert len(w.provider.times("status")) >= 5
        w.provider["s-1"].state = NOT_FOUND
        await w.until(80)
        assert w.summary()["reason"] == "gone"


@in_virtual_time
async def test_past_its_expiry_a_sandbox_that_runs_is_read_on():
    async with world() as w:
        w.provider["s-1"].expires_at_ns = at(-60)
        await w.live(300)
        assert w.sink.of("ended") == []
        assert len(w.sink.of("sample")) >= 29


@in_virtual_time
async def test_the_state_is_asked_for_just_after_each_expiry_that_was_told():
    async with world() as w:
        w.provider["s-1"].expires_at_ns = at(100)
        await w.live(50)
        w.provider["s-1"].expires_at_ns = at(200)
        await w.until(400)
        assert [round(time) for time in w.provider.times("status")] == [2, 101, 201]


@in_virtual_time
async def test_a_stop_that_comes_after_not_found_is_the_reason_unless_the_summary_is_out():
    async with world() as w:
        w.start(root=False)
        w.start("s-2", root=True)
        await w.until(25)
        w.delete()
        w.delete("s-2")
        await w.until(60)
        w.stop("s-1", began=25, ended=26)
        await w.until(61)
        w.end_rollout()
        await w.until(62)
        assert (w.summary()["reason"], w.summary()["missed"]) == ("stopped", 0)
        assert w.summary("s-2")["reason"] == "gone"
        assert len(w.finished) == 2
