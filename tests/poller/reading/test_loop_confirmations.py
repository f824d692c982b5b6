"""What an ended sandbox still needs: the question that confirms its end, over restarts and faults of our own."""

import pytest

from sandgauge_poller.ingest.events import StartEvent, StopEvent
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.progress import End, Progress
from sandgauge_schemas.names import EndReason, ErrorType
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.reading_world import TRACE, at, world
from support.virtual_time import in_virtual_time

NOT_FOUND, RUNNING = SandboxState.NOT_FOUND, SandboxState.RUNNING


@in_virtual_time
async def test_a_confirmation_waits_for_a_control_plane_that_answers():
    async with world() as w:
        await w.live(33)
        w.stop()
        w.delete()
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
        await w.live(25)
        w.delete()
        await w.wait_for(lambda: w.tracked().progress.not_found_ns is not None)
        w.stop()
        w.provider["s-1"].state, w.provider["s-1"].sample = RUNNING, None
        await w.until(400)
        w.delete()
        await w.until(500)
        asked = [time for time in w.provider.times("status") if time > 400]
        assert asked[1] - asked[0] >= 5


@in_virtual_time
async def test_a_sandbox_that_failed_and_runs_again_is_no_leak():
    async with world() as w:
        await w.live(25)
        w.provider["s-1"].state, w.provider["s-1"].sample = SandboxState.FAILED, ErrorType.HTTP_ERROR
        await w.until(60)
        w.provider["s-1"].state, w.provider["s-1"].sample = RUNNING, None
        await w.until(400)
        sandbox = w.tracked()
        assert (sandbox.progress.end, sandbox.progress.leaked) == (None, False)
        w.stop()
        await w.until(401)
        assert w.sink.of("summary")[-1].detail["reason"] == "stopped"


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
        assert w.kinds() == ["ended"]
        assert w.tracked().progress.end == End(EndReason.STOPPED, at(-899))
        assert w.provider.calls == []


@in_virtual_time
async def test_an_end_is_not_recorded_again_after_a_restart_and_its_summary_keeps_its_time():
    async with world() as w:
        ended = Progress(end=End(EndReason.STOPPED, at(-200)), ended_seen_ns=at(-195))
        w.restore(events(stopped=True), {"s-1": ended})
        w.delete()
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


@pytest.mark.parametrize("kind", ["ended", "summary", "changed", "sample"])
@in_virtual_time
async def test_a_record_that_fails_leaves_no_sandbox_without_the_rest_of_its_end(kind, caplog):
    async with world() as w:
        w.provider["s-1"].expires_at_ns = at(1000)
        w.sink.failures[kind] = 1
        await w.live(33)
        w.stop()
        w.delete()
        await w.until(500)
        assert len(w.sink.of("summary")) == 1
        assert len(w.active) == 0
        assert len(w.finished) == 1
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
