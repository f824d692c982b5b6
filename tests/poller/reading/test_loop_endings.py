"""How sandboxes end, what is asked and recorded after, and what outlives its end."""

import asyncio

import pytest

from sandgauge_poller.ingest.events import StartEvent, StopEvent
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.progress import End, Progress
from sandgauge_schemas.names import EndReason, ErrorType
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.reading_world import TRACE, at, world
from support.virtual_time import in_virtual_time

NOT_FOUND, RUNNING, PAUSED = SandboxState.NOT_FOUND, SandboxState.RUNNING, SandboxState.PAUSED
OTHER_TRACE = b"\x02" * 16


def kinds(w, sandbox_id="s-1", without=("changed",)):
    entries = [entry for entry in w.sink.entries if entry.sandbox_id == sandbox_id]
    return [entry.kind for entry in entries if entry.kind not in without]


def summary(w, sandbox_id="s-1"):
    (entry,) = w.sink.of("summary", sandbox_id)
    return entry.detail


def delete(w, sandbox_id="s-1", error=ErrorType.HTTP_ERROR):
    w.provider[sandbox_id].state = NOT_FOUND
    w.provider[sandbox_id].sample = w.provider[sandbox_id].allocation = error


# Stops


@in_virtual_time
async def test_a_stop_ends_the_readings_closes_the_series_and_is_confirmed_after_the_grace():
    async with world() as w:
        w.start()
        await w.until(33)
        w.stop()
        delete(w)
        await w.until(332)
        assert w.finished == []
        await w.until(400)
        asked = [call for call in w.provider.calls if call.at >= 33]
        assert [(call.what, call.at) for call in asked] == [("status", 333)]
        assert w.provider.forgotten == ["s-1"]
        assert kinds(w)[-2:] == ["ended", "summary"]
        assert [round(time) for time, _ in w.finished] == [333]
        assert summary(w) == {
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
        delete(w)
        await w.until(400)
        assert [call.what for call in w.provider.calls] == ["status"]
        assert kinds(w) == ["ended", "summary"]
        assert len(w.finished) == 1


@in_virtual_time
async def test_the_end_is_when_the_stop_span_says():
    async with world() as w:
        sandbox = w.start()
        await w.until(33)
        w.stop(began=29, ended=30)
        await asyncio.sleep(0.1)
        assert sandbox.progress.end == End(EndReason.STOPPED, at(30))


@in_virtual_time
async def test_a_stop_of_an_ended_sandbox_again_changes_nothing():
    async with world() as w:
        w.start()
        await w.until(3)
        for _ in range(3):
            w.stop()
        await w.until(4)
        w.stop()
        await w.until(5)
        assert kinds(w)[-2:] == ["ended", "summary"]
        assert kinds(w).count("ended") == 1


@in_virtual_time
async def test_a_reading_on_its_way_at_the_end_is_kept_and_the_summary_waits_for_it():
    async with world() as w:
        w.start()
        await w.until(0.5)
        w.stop()
        await w.until(0.9)
        assert kinds(w) == ["allocation", "ended"]
        await w.until(2)
        assert kinds(w) == ["allocation", "ended", "sample", "summary"]
        assert summary(w)["readings"] == 1


@pytest.mark.parametrize(("error_type", "recorded"), [(None, True), (ErrorType.NOT_FOUND, False)])
def test_an_allocation_on_its_way_at_the_end_is_kept_if_it_says_something(error_type, recorded):
    @in_virtual_time
    async def scenario():
        async with world() as w:
            w.provider["s-1"].allocation = error_type
            w.provider["s-1"].allocation_takes_s = 0.8
            w.start()
            await w.until(0.5)
            w.stop()
            await w.until(60)
            assert ("allocation" in kinds(w)) is recorded
            assert w.provider.times("allocation") == [0.0]

    scenario()


@in_virtual_time
async def test_a_summary_waits_no_longer_than_a_while_for_a_reading_that_hangs():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 1e6
        w.start()
        await w.until(0.5)
        w.stop()
        await w.until(10)
        assert [round(entry.at, 1) for entry in w.sink.of("summary")] == [5.5]


@pytest.mark.parametrize(("stop_began", "missed"), [(0.4, 1), (-0.5, 0)], ids=["before the stop", "after it began"])
def test_a_failure_on_its_way_at_the_end_is_missed_only_if_it_began_before_the_stop(stop_began, missed):
    @in_virtual_time
    async def scenario():
        async with world() as w:
            w.provider["s-1"].sample = ErrorType.TIMEOUT
            w.start()
            await w.until(0.5)
            w.stop(began=stop_began, ended=0.5)
            await w.until(3)
            assert [entry.detail for entry in w.sink.of("sample")] == [(ErrorType.TIMEOUT, 1)] * missed
            assert summary(w)["missed"] == missed

    scenario()


@in_virtual_time
async def test_failures_after_the_stop_began_are_not_missed():
    async with world(collection_interval=2) as w:
        w.provider["s-1"].sample_takes_s = 0.1
        w.start()
        await w.until(20)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.until(21.9)
        before = [entry for entry in w.sink.of("sample") if entry.detail[0] is not None]
        began = w.provider.times("sample")[-1] + 0.05
        await w.until(29)
        w.stop(began=began, ended=28)
        await w.until(30)
        assert len(before) == 1
        assert summary(w)["missed"] == 1


@in_virtual_time
async def test_readings_put_off_by_back_off_until_the_stop_are_missed():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.CONNECTION
        w.provider["s-1"].sample_takes_s = 0.1
        w.start()
        await w.until(200)
        times = w.provider.times("sample")
        w.stop()
        await w.until(201)
        ticks = int((200 - times[-1]) // 10) + round((times[-1] - times[1]) / 10) + 2
        assert ticks > len(times)
        assert summary(w)["missed"] == ticks


# What the control plane says


@pytest.mark.parametrize(
    ("expires_at", "reason"), [(None, "gone"), (at(1000), "gone"), (at(20), "expired"), (at(-100), "expired")]
)
def test_not_found_twice_is_the_end(expires_at, reason):
    @in_virtual_time
    async def scenario():
        async with world() as w:
            w.provider["s-1"].expires_at_ns = expires_at
            w.start()
            await w.until(25)
            assert len(w.active) == 1
            delete(w)
            w.provider["s-1"].expires_at_ns = None
            await w.until(60)
            asked = [time for time in w.provider.times("status") if time > 25]
            assert len(asked) == 2
            assert asked[1] - asked[0] >= 5
            assert kinds(w)[-2:] == ["ended", "summary"]
            assert summary(w)["reason"] == reason
            assert summary(w)["missed"] == 0
            assert len(w.finished) == 1
            calls = len(w.provider.calls)
            await w.until(1000)
            assert len(w.provider.calls) == calls

    scenario()


@in_virtual_time
async def test_not_found_once_and_then_there_is_no_end():
    async with world() as w:
        w.start()
        await w.until(25)
        delete(w)
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
        w.start()
        await w.until(500)
        assert w.sink.of("ended") == []
        assert len(w.active) == 1


@in_virtual_time
async def test_a_control_plane_that_does_not_answer_ends_nothing():
    async with world() as w:
        w.start()
        await w.until(25)
        delete(w, error=ErrorType.TIMEOUT)
        w.provider["s-1"].state = None
        await w.until(500)
        assert w.sink.of("ended") == []
        w.provider["s-1"].state = NOT_FOUND
        await w.until(600)
        assert summary(w)["reason"] == "gone"


@in_virtual_time
async def test_failures_while_the_control_plane_still_had_it_are_missed_and_later_ones_are_not():
    async with world() as w:
        w.provider["s-1"].sample_takes_s = 0.1
        w.start()
        await w.until(20)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.wait_for(lambda: any(entry.detail[0] for entry in w.sink.of("sample")))
        await asyncio.sleep(1)  # the state was asked for and it was there
        delete(w)
        await w.until(100)
        assert summary(w)["missed"] == 1
        assert len([entry for entry in w.sink.of("sample") if entry.detail[0]]) > 1


@pytest.mark.parametrize(
    ("state", "reason"), [(SandboxState.TERMINATED, "terminated"), (SandboxState.FAILED, "failed")]
)
@pytest.mark.parametrize("oom_killed", [True, False, None])
def test_an_entrypoint_that_ended_is_the_end_and_inspect_says_whether_memory_was_why(state, reason, oom_killed):
    @in_virtual_time
    async def scenario():
        async with world() as w:
            w.start()
            await w.until(25)
            w.provider["s-1"].state = state
            w.provider["s-1"].sample = ErrorType.HTTP_ERROR
            w.provider["s-1"].oom_killed = oom_killed
            await w.until(100)
            assert (summary(w)["reason"], summary(w)["oom_killed"]) == (reason, oom_killed)
            assert kinds(w)[-2:] == ["ended", "summary"]
            assert w.finished == []
            w.provider["s-1"].state = NOT_FOUND
            await w.until(400)
            assert len(w.finished) == 1

    scenario()


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
        w.start()
        await w.until(25)
        await failure_is_told(w)
        delete(w)
        await w.until(100)
        assert summary(w)["reason"] == "gone"


@in_virtual_time
async def test_a_stop_is_the_reason_of_what_looked_like_a_failure_while_it_was_carried_out():
    async with world() as w:
        w.start()
        await w.until(25)
        await failure_is_told(w)
        w.stop(began=25)
        delete(w)
        await w.until(400)
        assert summary(w)["reason"] == "stopped"


@in_virtual_time
async def test_what_had_failed_before_it_was_stopped_has_failed():
    async with world() as w:
        w.start()
        await w.until(25)
        await failure_is_told(w)
        told = w.provider.times("status")[-1]
        w.stop(began=told + 1)
        delete(w)
        await w.until(400)
        assert (summary(w)["reason"], summary(w)["oom_killed"]) == ("failed", False)


@in_virtual_time
async def test_a_failure_is_believed_when_it_is_told_again_five_seconds_later_and_is_as_old_as_the_first_word():
    async with world() as w:
        w.start()
        await w.until(25)
        await failure_is_told(w)
        told = w.provider.times("status")[-1]
        await w.until(100)
        (ended,) = w.sink.of("ended")
        assert ended.at - told == pytest.approx(5, abs=0.1)
        assert w.tracked().progress.end.at_ns == pytest.approx(at(told), abs=0.1e9)


@in_virtual_time
async def test_a_kill_for_memory_needs_no_second_word():
    async with world() as w:
        w.start()
        await w.until(25)
        before = len(w.provider.times("status"))
        fail(w, oom_killed=True)
        await w.wait_for(lambda: len(w.sink.of("summary")) == 1)
        assert len(w.provider.times("status")) == before + 1
        assert (summary(w)["reason"], summary(w)["oom_killed"]) == ("failed", True)


@in_virtual_time
async def test_a_failure_that_was_none_is_forgotten():
    async with world() as w:
        w.start()
        await w.until(25)
        await failure_is_told(w)
        w.provider["s-1"].state, w.provider["s-1"].sample = SandboxState.RUNNING, None
        await w.until(60)
        w.provider["s-1"].oom_killed = None
        w.stop()
        delete(w)
        await w.until(400)
        assert (summary(w)["reason"], summary(w)["oom_killed"]) == ("stopped", None)


@pytest.mark.parametrize("state", [SandboxState.STOPPING, SandboxState.UNKNOWN])
def test_a_sandbox_that_is_going_is_asked_for_until_it_is_gone(state):
    @in_virtual_time
    async def scenario():
        async with world() as w:
            w.start()
            await w.until(25)
            w.provider["s-1"].state, w.provider["s-1"].sample = state, ErrorType.CONNECTION
            await w.until(60)
            assert w.sink.of("ended") == []
            assert len(w.provider.times("status")) >= 5
            w.provider["s-1"].state = NOT_FOUND
            await w.until(80)
            assert summary(w)["reason"] == "gone"

    scenario()


@in_virtual_time
async def test_past_its_expiry_a_sandbox_that_runs_is_read_on():
    async with world() as w:
        w.provider["s-1"].expires_at_ns = at(-60)
        w.start()
        await w.until(300)
        assert w.sink.of("ended") == []
        assert len(w.sink.of("sample")) >= 29


@in_virtual_time
async def test_the_state_is_asked_for_just_after_each_expiry_that_was_told():
    async with world() as w:
        w.provider["s-1"].expires_at_ns = at(100)
        w.start()
        await w.until(50)
        w.provider["s-1"].expires_at_ns = at(200)
        await w.until(400)
        assert [round(time) for time in w.provider.times("status")] == [2, 101, 201]


@in_virtual_time
async def test_a_stop_that_comes_after_not_found_is_the_reason_unless_the_summary_is_out():
    async with world() as w:
        w.start(root=False)
        w.start("s-2", root=True)
        await w.until(25)
        delete(w)
        delete(w, "s-2")
        await w.until(60)
        w.stop("s-1", began=25, ended=26)
        await w.until(61)
        w.end_rollout()
        await w.until(62)
        assert (summary(w)["reason"], summary(w)["missed"]) == ("stopped", 0)
        assert summary(w, "s-2")["reason"] == "gone"
        assert len(w.finished) == 2


# Paused sandboxes


@in_virtual_time
async def test_a_paused_sandbox_is_not_read_and_says_so():
    async with world() as w:
        w.start()
        await w.until(25)
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
        w.start()
        await w.until(25)
        samples = len(w.sink.of("sample"))
        delete(w)
        await w.until(200)
        assert summary(w)["reason"] == "gone"
        assert len(w.sink.of("sample")) <= samples + 2


@in_virtual_time
async def test_a_paused_sandbox_that_turns_out_to_have_ended_is_summed_up_at_once():
    async with world() as w:
        w.provider["s-1"].state = PAUSED
        w.start()
        await w.until(25)
        w.provider["s-1"].state = SandboxState.TERMINATED
        await w.wait_for(lambda: w.sink.of("ended"))
        await asyncio.sleep(0.1)
        assert summary(w)["reason"] == "terminated"
        assert w.sink.entries[-2].kind == "ended"


# Leaks


@in_virtual_time
async def test_what_is_still_there_after_its_stop_is_a_leak_and_is_read_until_it_really_ends():
    async with world() as w:
        sandbox = w.start()
        await w.until(33)
        w.stop()
        await w.until(332)
        assert kinds(w)[-2:] == ["ended", "summary"]
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
        delete(w)
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
        w.start()
        await w.until(33)
        w.stop()
        w.provider["s-1"].state = PAUSED
        await w.until(400)
        assert w.tracked().progress.leaked
        assert {entry.detail[0] for entry in w.sink.of("sample") if entry.at > 300} == {ErrorType.PAUSED}


@in_virtual_time
async def test_a_confirmation_waits_for_a_control_plane_that_answers():
    async with world() as w:
        w.start()
        await w.until(33)
        w.stop()
        delete(w)
        w.provider["s-1"].state = None
        await w.until(400)
        assert [round(time) for time in w.provider.times("status")[1:]] == [333, 363, 393]
        w.provider["s-1"].state = SandboxState.STOPPING
        await w.until(430)
        w.provider["s-1"].state = NOT_FOUND
        await w.until(460)
        assert len(w.finished) == 1
        assert len(w.sink.of("summary")) == 1


@in_virtual_time
async def test_one_not_found_before_a_stop_does_not_shorten_the_next_row_after_a_leak():
    async with world() as w:
        w.start()
        await w.until(25)
        delete(w)
        await w.wait_for(lambda: w.tracked().progress.not_found_ns is not None)
        w.stop()
        w.provider["s-1"].state, w.provider["s-1"].sample = RUNNING, None
        await w.until(400)
        delete(w)
        await w.until(500)
        asked = [time for time in w.provider.times("status") if time > 400]
        assert asked[1] - asked[0] >= 5


@in_virtual_time
async def test_a_sandbox_that_failed_and_runs_again_is_no_leak():
    async with world() as w:
        w.start()
        await w.until(25)
        w.provider["s-1"].state, w.provider["s-1"].sample = SandboxState.FAILED, ErrorType.HTTP_ERROR
        await w.until(60)
        w.provider["s-1"].state, w.provider["s-1"].sample = RUNNING, None
        await w.until(400)
        sandbox = w.tracked()
        assert (sandbox.progress.end, sandbox.progress.leaked) == (None, False)
        w.stop()
        await w.until(401)
        assert w.sink.of("summary")[-1].detail["reason"] == "stopped"


@in_virtual_time
async def test_what_lives_past_the_grace_of_its_rollout_is_a_leak_and_is_read_on():
    async with world() as w:
        sandbox = w.start(root=False)
        await w.until(33)
        w.end_rollout()
        await w.until(332)
        assert not sandbox.progress.leaked
        await w.until(500)
        assert sandbox.progress.leaked
        assert [round(time) for time in w.provider.times("status")] == [2, 333]
        assert len(w.sink.of("sample")) >= 49
        w.stop()
        delete(w)
        await w.until(501)
        assert summary(w)["leaked"]
        assert summary(w)["rollout"] == "7-0"


@in_virtual_time
async def test_a_leak_check_of_a_sandbox_that_ended_in_time_asks_nothing():
    async with world() as w:
        w.start(root=False)
        await w.until(33)
        w.end_rollout()
        w.stop()
        delete(w)
        await w.until(400)
        assert [round(time) for time in w.provider.times("status")] == [2, 333]
        assert not summary(w)["leaked"]


@in_virtual_time
async def test_a_leak_check_is_made_again_until_the_control_plane_answers():
    async with world() as w:
        sandbox = w.start(root=False)
        await w.until(33)
        w.end_rollout()
        w.provider["s-1"].state = None
        await w.until(360)
        assert not sandbox.progress.leaked
        w.provider["s-1"].state = RUNNING
        await w.until(364)
        assert sandbox.progress.leaked


# Summaries


@in_virtual_time
async def test_a_summary_comes_at_once_where_the_rollout_is_known_or_there_is_none():
    async with world() as w:
        w.start("named", root=False, rollout="7-0")
        w.start("root", root=True)
        w.start("child", root=False, trace_id=OTHER_TRACE)
        await w.until(33)
        for sandbox_id in ("named", "root", "child"):
            w.stop(sandbox_id)
            delete(w, sandbox_id)
        await w.until(34)
        assert [round(entry.at) for entry in w.sink.entries if entry.kind == "summary"] == [33, 33]
        await w.until(100)
        w.end_rollout("8-0", trace_id=OTHER_TRACE)
        await w.until(101)
        assert (w.sink.of("summary", "child")[0].at, summary(w, "child")["rollout"]) == (100, "8-0")


@in_virtual_time
async def test_a_summary_waits_no_longer_for_its_rollout_than_it_may():
    async with world() as w:
        w.start(root=False)
        await w.until(33)
        w.stop()
        delete(w)
        await w.until(632)
        assert w.sink.of("summary") == []
        await w.until(700)
        assert [entry.at for entry in w.sink.of("summary")] == [633]
        assert summary(w)["rollout"] is None
        assert len(w.finished) == 1


@in_virtual_time
async def test_a_rollout_that_is_known_before_the_end_makes_no_difference():
    async with world() as w:
        w.end_rollout()
        w.start(root=False)
        await w.until(33)
        w.stop()
        await w.until(34)
        assert summary(w)["rollout"] == "7-0"


# Restarts


def events(*, stopped):
    record = StartRecord(keys=JoinKeys(sandbox_id="s-1", provider="opensandbox"))
    span = {"trace_id": TRACE, "start_ns": at(-900), "end_ns": at(-899), "received_ns": at(-899)}
    start = StartEvent(**span, span_id=b"\x05" * 8, parent_span_id=b"\x07" * 8, record=record)
    keys = JoinKeys(sandbox_id="s-1", provider="opensandbox")
    return [start, *([StopEvent(**span, span_id=b"\x06" * 8, keys=keys)] if stopped else [])]


@in_virtual_time
async def test_a_stop_that_was_stored_and_not_acted_on_ends_the_sandbox_after_the_restart():
    async with world() as w:
        w.restore(events(stopped=True), {"s-1": Progress(readings=3)})
        await w.until(1)
        assert kinds(w) == ["ended"]
        assert w.tracked().progress.end == End(EndReason.STOPPED, at(-899))
        assert w.provider.calls == []


@in_virtual_time
async def test_an_end_is_not_recorded_again_after_a_restart_and_its_summary_keeps_its_time():
    async with world() as w:
        ended = Progress(end=End(EndReason.STOPPED, at(-200)), ended_seen_ns=at(-195))
        w.restore(events(stopped=True), {"s-1": ended})
        delete(w)
        await w.until(1000)
        assert w.sink.of("ended") == []
        assert [entry.at for entry in w.sink.of("summary")] == [405]
        assert [round(time) for time in w.provider.times("status")] == [105]
        assert len(w.finished) == 1


@in_virtual_time
async def test_a_leak_is_read_on_after_a_restart():
    async with world() as w:
        leak = Progress(leaked=True, stop_overruled=True, last_reading_ns=at(-10))
        w.restore(events(stopped=True), {"s-1": leak})
        await w.until(30)
        assert len(w.provider.times("sample")) >= 3
        assert w.sink.of("ended") == []


@in_virtual_time
async def test_a_sandbox_whose_end_was_all_recorded_is_let_go_after_a_restart():
    async with world() as w:
        done = Progress(end=End(EndReason.GONE, at(-50)), ended_seen_ns=at(-49), summarised=True, confirmed=True)
        w.restore(events(stopped=False), {"s-1": done})
        await w.until(1)
        assert len(w.finished) == 1
        assert w.sink.entries == w.provider.calls == []


# Faults of our own


@pytest.mark.parametrize("kind", ["ended", "summary", "changed", "sample"])
def test_a_record_that_fails_leaves_no_sandbox_without_the_rest_of_its_end(kind, caplog):
    @in_virtual_time
    async def scenario():
        async with world() as w:
            w.provider["s-1"].expires_at_ns = at(1000)
            w.sink.failures[kind] = 1
            w.start()
            await w.until(33)
            w.stop()
            delete(w)
            await w.until(500)
            assert len(w.sink.of("summary")) == 1
            assert len(w.active) == 0
            assert len(w.finished) == 1

    scenario()
    assert {record.levelname for record in caplog.records} == {"ERROR"}


@in_virtual_time
async def test_letting_go_that_fails_is_logged_and_tried_again(caplog):
    async with world(collection_interval=0) as w:
        w.context.finish = _disk_full
        w.start()
        w.stop()
        await w.until(35)
        assert len(w.active) == 1
    assert len(caplog.records) == 4


async def _disk_full(_):
    raise OSError("database or disk is full")
