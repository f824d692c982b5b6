"""Readings after a restart: they go on, and what was due meanwhile is missed."""

from dataclasses import replace

import pytest

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.progress import End, Progress
from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource
from sandgauge_schemas.records import JoinKeys, ReadingStatus, StartRecord
from support.reading_world import TRACE, at, world
from support.virtual_time import in_virtual_time


def started(sandbox_id="s-1", seconds=-1000.0):
    record = StartRecord(keys=JoinKeys(sandbox_id=sandbox_id, provider="opensandbox"))
    times = {"start_ns": at(seconds - 1), "end_ns": at(seconds), "received_ns": at(seconds)}
    return StartEvent(trace_id=TRACE, span_id=b"\x05" * 8, **times, record=record)


@in_virtual_time
async def test_a_restored_sandbox_is_read_on_and_what_was_due_meanwhile_is_missed():
    async with world() as w:
        progress = Progress(readings=7, last_reading_ns=at(-65), failed_in_a_row_ns=[at(-58)], missed=1)
        w.restore([started()], {"s-1": progress})
        await w.until(60)
        times = w.provider.times("sample")
        assert times[0] == 0
        # The reading of 58 s ago was the last one tried; five more were due before this one.
        assert w.sink.of("sample")[0].detail == (None, 5)
        assert [entry.detail for entry in w.sink.of("sample")[1:]] == [(None, 0)] * (len(times) - 1)
    assert w.metrics.lags == []


@in_virtual_time
async def test_a_restored_sandbox_that_was_never_read_has_missed_nothing_known():
    async with world() as w:
        w.restore([started()], {})
        await w.until(3)
        assert w.sink.of("sample")[0].detail == (None, 0)


@in_virtual_time
async def test_a_restored_sandbox_that_had_ended_is_not_read():
    async with world() as w:
        progress = Progress(end=End(EndReason.STOPPED, at(-100)), ended_seen_ns=at(-99), summarised=True)
        w.restore([started()], {"s-1": progress})
        w.provider["s-1"].state = SandboxState.NOT_FOUND
        await w.until(200)
        assert w.sink.of("summary") == []
        assert w.provider.times("sample") == []
        await w.until(202)
        assert [(what, round(time)) for time, what in ((c.at, c.what) for c in w.provider.calls)] == [("status", 201)]
    assert [sandbox_id for _, sandbox_id in w.finished] == ["s-1"]


@in_virtual_time
async def test_waiting_for_its_turn_after_a_restart_is_not_missed_but_what_was_due_before_is():
    async with world(rate=0.02) as w:
        w.restore(
            [replace(started(f"s-{n}"), span_id=bytes([n + 1]) * 8) for n in range(2)],
            {f"s-{n}": Progress(readings=7, last_reading_ns=at(-31)) for n in range(2)},
        )
        await w.until(60)
        assert sorted(w.provider.times("sample", f"s-{n}")[0] for n in range(2)) == [0, 50]
        assert [w.sink.of("sample", f"s-{n}")[0].detail for n in range(2)] == [(None, 2)] * 2


def asked_for(source=ResourceSource.OPENSANDBOX_INSPECT, error_type=None):
    return Progress(last_reading_ns=at(-10), allocation_status=ReadingStatus(source=source, error_type=error_type))


@in_virtual_time
async def test_of_what_its_control_plane_has_said_a_restored_sandbox_is_read_first_and_asked_in_its_turn():
    async with world() as w:
        w.restore([started()], {"s-1": asked_for()})
        turn = w.tracked().phase * 300.0
        await w.until(310)
        assert w.provider.times("sample")[0] == 0
        assert w.provider.times("allocation")[0] == pytest.approx(turn, abs=0.1)
        assert w.provider.times("status")[0] == pytest.approx(max(turn, 2.0), abs=0.1)


@in_virtual_time
async def test_what_its_control_plane_has_not_said_a_restored_sandbox_is_asked_at_once():
    async with world() as w:
        w.restore([started()], {"s-1": asked_for(error_type=ErrorType.TIMEOUT)})
        await w.until(3)
        assert (w.provider.times("allocation")[0], w.provider.times("status")) == (0, [2])
