"""Sandboxes that change their poller: what a new owner tells of them, and how a former one lets go."""

import asyncio

import pytest

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.progress import Progress
from sandgauge_schemas.records import Allocation, JoinKeys, StartRecord
from support.reading_doubles import elapsed
from support.reading_world import TRACE, at, world
from support.virtual_time import in_virtual_time


def started():
    record = StartRecord(keys=JoinKeys(sandbox_id="s-1", provider="opensandbox"))
    times = {"start_ns": at(-11), "end_ns": at(-10), "received_ns": at(-10)}
    return StartEvent(trace_id=TRACE, span_id=b"\x05" * 8, **times, record=record)


@in_virtual_time
async def test_what_was_gone_before_its_new_owner_came_is_not_told_again():
    async with world() as w:
        w.delete()
        w.restore([started()], {"s-1": Progress(inherited=True)})
        await w.until(60)
        assert w.sink.of("summary") == []
    assert [sandbox_id for _, sandbox_id in w.finished] == ["s-1"]


@pytest.mark.parametrize(
    "seen", [{"allocation": Allocation()}, {"first_reading_ns": at(-5)}, {"expires_at_ns": at(100)}]
)
@in_virtual_time
async def test_what_a_new_owner_has_seen_it_tells_the_end_of(seen):
    async with world() as w:
        w.delete()
        w.restore([started()], {"s-1": Progress(inherited=True, **seen)})
        await w.until(60)
        assert len(w.sink.of("summary")) == 1


@in_virtual_time
async def test_what_was_stopped_before_its_new_owner_saw_anything_is_told():
    async with world() as w:
        w.delete()
        w.restore([started()], {"s-1": Progress(inherited=True)})
        w.stop()
        await w.until(60)
        assert len(w.sink.of("summary")) == 1


@in_virtual_time
async def test_while_held_nothing_begins_and_what_is_on_its_way_is_waited_for():
    async with world() as w:
        await w.live(until=30)
        await w.wait_for(lambda: w.context.pace(w.tracked()).is_reading)
        begun = len(w.provider.times("sample"))
        await w.loop.hold(5)
        assert len(w.sink.of("sample")) == begun
        held = elapsed()
        await w.until(held + 35)
        assert len(w.provider.times("sample")) == begun
        w.loop.go_on()
        await w.until(held + 36)
        assert len(w.provider.times("sample")) == begun + 1


@in_virtual_time
async def test_what_is_let_go_is_not_read_on_and_has_not_ended():
    async with world() as w:
        sandbox = await w.live(until=30)
        kinds = w.kinds()
        w.active.discard(sandbox)
        w.loop.let_go([sandbox])
        asked = len(w.provider.calls)
        await w.until(100)
        assert len(w.provider.calls) == asked
        assert w.kinds() == kinds
        assert "ended" not in kinds


@in_virtual_time
async def test_a_reading_of_what_is_let_go_is_given_up():
    async with world() as w:
        sandbox = await w.live(until=30)
        await w.wait_for(lambda: w.context.pace(sandbox).is_reading)
        recorded = len(w.sink.of("sample"))
        w.active.discard(sandbox)
        w.loop.let_go([sandbox])
        await asyncio.sleep(10)
        assert len(w.sink.of("sample")) == recorded
