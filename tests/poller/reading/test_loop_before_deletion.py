"""The reading before deletion: taken at once, and the last one."""

import asyncio

import pytest

from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.reading.schedule import Task
from sandgauge_schemas.names import ErrorType
from support.reading_world import key, world
from support.virtual_time import START_S, in_virtual_time

RECORDED, NOT_READ = FinalReading.RECORDED, FinalReading.NOT_READ
PAUSED = SandboxState.PAUSED


@in_virtual_time
async def test_it_is_taken_at_once_and_is_the_last_one():
    async with world() as w:
        asked = await w.live_between_readings()
        assert await w.loop.final_reading("s-1") is RECORDED
        assert [entry.at for entry in w.final()] == [asked + 1]
        w.delete(error=ErrorType.CONNECTION)
        await w.until(asked + 6)
        w.stop(began=asked - 0.1, ended=asked + 1.2)
        await w.until(asked + 6.1)
        assert w.context.schedule.at(key(), Task.RESUME) is None
        await w.until(asked + 400)
        assert w.since(asked) == [("sample", 0), ("status", 306)]
        assert w.sink.of("sample")[-1] == w.final()[-1]
        assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}
        assert w.summary()["readings"] == len(w.sink.of("sample"))
        assert (w.summary()["reason"], w.summary()["missed"]) == ("stopped", 0)
        assert max(w.metrics.latenesses) < 1e-6
        assert (w.context.paces, w.context.schedule._pending, w.loop._running) == ({}, {}, {})


@in_virtual_time
async def test_a_good_reading_that_is_on_its_way_is_the_one():
    async with world() as w:
        await w.live(0.7)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(25)
        assert w.provider.times("sample") == [0]
        assert [(entry.at, entry.detail) for entry in w.final()] == [(1, (None, 0))]


@in_virtual_time
async def test_after_one_that_was_on_its_way_and_failed_a_fresh_one_is_taken():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.live(0.7)
        w.provider["s-1"].sample = None
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(25)
        assert w.provider.times("sample") == [0, 1]
        found = [(entry.detail, entry.is_final) for entry in w.sink.of("sample")]
        assert found == [((ErrorType.CONNECTION, 1), False), ((None, 0), True)]


@in_virtual_time
async def test_one_that_is_being_recorded_when_it_is_asked_for_is_too_early():
    async with world() as w:
        sample = w.sink.sample

        async def slowly(*arguments, **named):
            await asyncio.sleep(0.2)
            await sample(*arguments, **named)

        w.sink.sample = slowly
        await w.live(1.1)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(25)
        assert w.provider.times("sample") == pytest.approx([0, 1.2])
        assert [entry.is_final for entry in w.sink.of("sample")] == [False, True]


@in_virtual_time
async def test_those_who_ask_meanwhile_share_it_and_who_asks_later_gets_a_fresh_one():
    async with world() as w:
        asked = await w.live_between_readings()
        first = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.9)
        assert await w.loop.final_reading("s-1") is await first is RECORDED
        assert w.since(asked) == [("sample", 0)]
        await w.until(asked + 25)
        assert await w.loop.final_reading("s-1") is RECORDED
        assert w.since(asked) == [("sample", 0), ("sample", 25)]
        assert [entry.detail for entry in w.final()] == [(None, 0)] * 2
        await w.until(asked + 54)
        assert len(w.provider.times("status")) == 1  # the second one began the wait for a stop anew
        await w.until(asked + 56)
        assert len(w.provider.times("status")) == 2


@in_virtual_time
async def test_a_sandbox_whose_first_reading_is_still_to_come_has_it_then():
    async with world(initial_delay=8) as w:
        await w.live(2)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(20)
        assert w.provider.times("sample") == [2]


@in_virtual_time
async def test_one_that_is_given_up_is_recorded_all_the_same():
    async with world() as w:
        asked = await w.live_between_readings()
        w.provider["s-1"].sample_takes_s = 5
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(w.loop.final_reading("s-1"), 1.9)
        await w.until(asked + 25)
        assert w.since(asked) == [("sample", 0)]
        assert [entry.at for entry in w.final()] == [asked + 5]


@in_virtual_time
async def test_one_that_failed_is_recorded_and_nothing_is_asked_for_its_sake():
    async with world() as w:
        asked = await w.live_between_readings()
        w.delete(error=ErrorType.CONNECTION)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(asked + 20)
        assert w.since(asked) == [("sample", 0)]
        assert [entry.detail for entry in w.final()] == [(ErrorType.CONNECTION, 1)]
        w.stop(began=asked - 0.1, ended=asked + 1.2)
        await w.until(asked + 21)
        assert w.summary()["missed"] == 0


@in_virtual_time
async def test_what_back_off_put_off_until_then_is_missed():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.CONNECTION
        w.provider["s-1"].sample_takes_s = 0.1
        await w.live(200)
        times = w.provider.times("sample")
        assert await w.loop.final_reading("s-1") is RECORDED
        w.stop(began=199.9)
        await w.until(201)
        ticks = int((200 - times[-1]) // 10) + round((times[-1] - times[1]) / 10) + 2
        assert ticks > len(times)
        assert w.summary()["missed"] == ticks


@in_virtual_time
async def test_the_end_that_comes_meanwhile_takes_nothing_from_it():
    async with world() as w:
        asked = await w.live_between_readings()
        reading = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.5)
        w.stop()
        assert await reading is RECORDED
        await w.until(asked + 2)
        assert [(entry.at, entry.detail) for entry in w.final()] == [(asked + 1, (None, 0))]
        assert w.summary()["readings"] == len(w.sink.of("sample"))


@in_virtual_time
async def test_one_that_fails_since_the_sandbox_has_ended_is_no_reading():
    async with world() as w:
        asked = await w.live_between_readings()
        w.delete(error=ErrorType.CONNECTION)
        reading = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.5)
        w.stop(began=asked - 0.1, ended=asked + 0.4)
        assert await reading is NOT_READ
        assert w.final() == []


@in_virtual_time
async def test_a_fault_of_our_own_is_no_record_and_tried_again(caplog):
    async with world() as w:
        asked = await w.live_between_readings()
        w.sink.failures["sample"] = 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(w.loop.final_reading("s-1"), 1.9)
        assert w.final() == []
        await w.until(asked + 25)
        assert w.since(asked) == [("sample", 0), ("sample", 11)]
        assert [entry.at for entry in w.final()] == [asked + 12]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@in_virtual_time
async def test_many_are_taken_at_one_time():
    async with world() as w:
        ids = [f"s-{number}" for number in range(50)]
        for sandbox_id in ids:
            await w.live(27, sandbox_id)
        assert set(await asyncio.gather(*map(w.loop.final_reading, ids))) == {RECORDED}
        assert asyncio.get_running_loop().time() - START_S <= 28
        assert all(len(w.final(sandbox_id)) == 1 for sandbox_id in ids)


@in_virtual_time
async def test_where_two_deployments_have_the_id_both_are_read_and_the_one_that_lives_is_read_on():
    async with world(deployments=("east", "west")) as w:
        await w.live(0.5, scope="http://east")
        await w.live(0.8, scope="http://west")
        assert await w.loop.final_reading("s-1") is RECORDED
        assert [entry.at for entry in w.final()] == [1, 1.5]
        await w.until(60)
        assert len(w.active) == 2
        assert all(sandbox.progress.readings >= 3 for sandbox in w.active)
        assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}


@pytest.mark.parametrize(
    ("settings", "sandbox"),
    [({}, {"hint": 0}), ({"collection_interval": 0}, {"hint": 5}), ({}, {"provider": "fake"}), ({}, None)],
    ids=["hint 0", "interval 0", "no such deployment", "unknown"],
)
@in_virtual_time
async def test_what_is_not_read_is_not_read_then_either(settings, sandbox):
    async with world(**settings) as w:
        if sandbox is not None:
            await w.live(1, **sandbox)
        assert await w.loop.final_reading("s-1") is NOT_READ
        w.stop(failed=True)
        await w.until(100)
        assert w.provider.calls == w.sink.entries == []
        assert w.context.paces == {}


@in_virtual_time
async def test_a_paused_sandbox_is_not_read_and_its_state_is_asked_for_as_before():
    async with world() as w:
        w.provider["s-1"].state = PAUSED
        await w.live(25)
        assert w.tracked().progress.paused
        assert await w.loop.final_reading("s-1") is NOT_READ
        asked = len(w.provider.times("status"))
        await w.until(60)
        assert len(w.provider.times("status")) > asked
        assert w.final() == []


@in_virtual_time
async def test_a_sandbox_that_has_ended_or_whose_stop_has_just_come_is_not_read():
    async with world() as w:
        asked = await w.live_between_readings()
        w.stop()
        assert await w.loop.final_reading("s-1") is NOT_READ
        await w.until(asked + 3)
        assert w.tracked().progress.end is not None
        assert await w.loop.final_reading("s-1") is NOT_READ
        assert w.since(asked) == []
