"""The reading before deletion: taken at once, the last one, and no obstacle to a sandbox that lives on."""

import asyncio
from itertools import pairwise

import pytest

from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.reading.schedule import Task, phase
from sandgauge_schemas.names import ErrorType
from support.reading_world import key, world
from support.virtual_time import START_S, in_virtual_time

RECORDED, NOT_READ = FinalReading.RECORDED, FinalReading.NOT_READ
NOT_FOUND, PAUSED, RUNNING = SandboxState.NOT_FOUND, SandboxState.PAUSED, SandboxState.RUNNING


def delete(w, sandbox_id="s-1"):
    w.provider[sandbox_id].state = NOT_FOUND
    w.provider[sandbox_id].sample = ErrorType.CONNECTION


def final(w, sandbox_id="s-1"):
    return [entry for entry in w.sink.of("sample", sandbox_id) if entry.is_final]


def summary(w):
    (entry,) = w.sink.of("summary")
    return entry.detail


def on_phase(seconds, interval=10):
    ticks = (START_S + seconds) / interval - phase("s-1")
    return abs(ticks - round(ticks)) < 1e-6


async def between_readings(w, after):
    """Let time pass until no reading of the sandbox is on its way, nor due within five seconds."""
    await w.until(after)
    begun = len(w.provider.times("sample"))
    await w.wait_for(lambda: len(w.provider.times("sample")) > begun)
    await w.until(w.provider.times("sample")[-1] + 3)
    return w.provider.times("sample")[-1] + 3


def since(w, seconds):
    return [(call.what, round(call.at - seconds, 2)) for call in w.provider.calls if call.at >= seconds]


# The reading


@in_virtual_time
async def test_it_is_taken_at_once_and_is_the_last_one():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        assert await w.loop.final_reading("s-1") is RECORDED
        assert [entry.at for entry in final(w)] == [asked + 1]
        delete(w)
        await w.until(asked + 6)
        w.stop(began=asked - 0.1, ended=asked + 1.2)
        await w.until(asked + 6.1)
        assert w.context.schedule.at(key(), Task.RESUME) is None
        await w.until(asked + 400)
        assert since(w, asked) == [("sample", 0), ("status", 306)]
        assert w.sink.of("sample")[-1] == final(w)[-1]
        assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}
        assert summary(w)["readings"] == len(w.sink.of("sample"))
        assert (summary(w)["reason"], summary(w)["missed"]) == ("stopped", 0)
        assert max(w.metrics.latenesses) < 1e-6
        assert (w.context.paces, w.context.schedule._pending, w.loop._running) == ({}, {}, {})


@in_virtual_time
async def test_a_good_reading_that_is_on_its_way_is_the_one():
    async with world() as w:
        w.start()
        await w.until(0.7)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(25)
        assert w.provider.times("sample") == [0]
        assert [(entry.at, entry.detail) for entry in final(w)] == [(1, (None, 0))]


@in_virtual_time
async def test_after_one_that_was_on_its_way_and_failed_a_fresh_one_is_taken():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.CONNECTION
        w.start()
        await w.until(0.7)
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
        w.start()
        await w.until(1.1)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(25)
        assert w.provider.times("sample") == pytest.approx([0, 1.2])
        assert [entry.is_final for entry in w.sink.of("sample")] == [False, True]


@in_virtual_time
async def test_those_who_ask_meanwhile_share_it_and_who_asks_later_gets_a_fresh_one():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        first = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.9)
        assert await w.loop.final_reading("s-1") is await first is RECORDED
        assert since(w, asked) == [("sample", 0)]
        await w.until(asked + 25)
        assert await w.loop.final_reading("s-1") is RECORDED
        assert since(w, asked) == [("sample", 0), ("sample", 25)]
        assert [entry.detail for entry in final(w)] == [(None, 0)] * 2
        await w.until(asked + 54)
        assert len(w.provider.times("status")) == 1  # the second one began the wait for a stop anew
        await w.until(asked + 56)
        assert len(w.provider.times("status")) == 2


@in_virtual_time
async def test_a_sandbox_whose_first_reading_is_still_to_come_has_it_then():
    async with world(initial_delay=8) as w:
        w.start()
        await w.until(2)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(20)
        assert w.provider.times("sample") == [2]


@in_virtual_time
async def test_one_that_is_given_up_is_recorded_all_the_same():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        w.provider["s-1"].sample_takes_s = 5
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(w.loop.final_reading("s-1"), 1.9)
        await w.until(asked + 25)
        assert since(w, asked) == [("sample", 0)]
        assert [entry.at for entry in final(w)] == [asked + 5]


@in_virtual_time
async def test_one_that_failed_is_recorded_and_nothing_is_asked_for_its_sake():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        delete(w)
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(asked + 20)
        assert since(w, asked) == [("sample", 0)]
        assert [entry.detail for entry in final(w)] == [(ErrorType.CONNECTION, 1)]
        w.stop(began=asked - 0.1, ended=asked + 1.2)
        await w.until(asked + 21)
        assert summary(w)["missed"] == 0


@in_virtual_time
async def test_what_back_off_put_off_until_then_is_missed():
    async with world() as w:
        w.provider["s-1"].sample = ErrorType.CONNECTION
        w.provider["s-1"].sample_takes_s = 0.1
        w.start()
        await w.until(200)
        times = w.provider.times("sample")
        assert await w.loop.final_reading("s-1") is RECORDED
        w.stop(began=199.9)
        await w.until(201)
        ticks = int((200 - times[-1]) // 10) + round((times[-1] - times[1]) / 10) + 2
        assert ticks > len(times)
        assert summary(w)["missed"] == ticks


@in_virtual_time
async def test_the_end_that_comes_meanwhile_takes_nothing_from_it():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        reading = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.5)
        w.stop()
        assert await reading is RECORDED
        await w.until(asked + 2)
        assert [(entry.at, entry.detail) for entry in final(w)] == [(asked + 1, (None, 0))]
        assert summary(w)["readings"] == len(w.sink.of("sample"))


@in_virtual_time
async def test_one_that_fails_since_the_sandbox_has_ended_is_no_reading():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        delete(w)
        reading = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.5)
        w.stop(began=asked - 0.1, ended=asked + 0.4)
        assert await reading is NOT_READ
        assert final(w) == []


@in_virtual_time
async def test_a_fault_of_our_own_is_no_record_and_tried_again(caplog):
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        w.sink.failures["sample"] = 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(w.loop.final_reading("s-1"), 1.9)
        assert final(w) == []
        await w.until(asked + 25)
        assert since(w, asked) == [("sample", 0), ("sample", 11)]
        assert [entry.at for entry in final(w)] == [asked + 12]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@in_virtual_time
async def test_many_are_taken_at_one_time():
    async with world() as w:
        ids = [f"s-{number}" for number in range(50)]
        for sandbox_id in ids:
            w.start(sandbox_id)
        await w.until(27)
        assert set(await asyncio.gather(*map(w.loop.final_reading, ids))) == {RECORDED}
        assert asyncio.get_running_loop().time() - START_S <= 28
        assert all(len(final(w, sandbox_id)) == 1 for sandbox_id in ids)


@in_virtual_time
async def test_where_two_deployments_have_the_id_both_are_read_and_the_one_that_lives_is_read_on():
    async with world(deployments=("east", "west")) as w:
        w.start(scope="http://east")
        await w.until(0.5)
        w.start(scope="http://west")
        await w.until(0.8)
        assert await w.loop.final_reading("s-1") is RECORDED
        assert [entry.at for entry in final(w)] == [1, 1.5]
        await w.until(60)
        assert len(w.active) == 2
        assert all(sandbox.progress.readings >= 3 for sandbox in w.active)
        assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}


# What is not read


@pytest.mark.parametrize(
    ("settings", "sandbox"),
    [({}, {"hint": 0}), ({"collection_interval": 0}, {"hint": 5}), ({}, {"provider": "fake"}), ({}, None)],
    ids=["hint 0", "interval 0", "no such deployment", "unknown"],
)
def test_what_is_not_read_is_not_read_then_either(settings, sandbox):
    @in_virtual_time
    async def scenario():
        async with world(**settings) as w:
            if sandbox is not None:
                w.start(**sandbox)
            await w.until(1)
            assert await w.loop.final_reading("s-1") is NOT_READ
            w.stop(failed=True)
            await w.until(100)
            assert w.provider.calls == w.sink.entries == []
            assert w.context.paces == {}

    scenario()


@in_virtual_time
async def test_a_paused_sandbox_is_not_read_and_its_state_is_asked_for_as_before():
    async with world() as w:
        w.provider["s-1"].state = PAUSED
        w.start()
        await w.until(25)
        assert w.tracked().progress.paused
        assert await w.loop.final_reading("s-1") is NOT_READ
        asked = len(w.provider.times("status"))
        await w.until(60)
        assert len(w.provider.times("status")) > asked
        assert final(w) == []


@in_virtual_time
async def test_a_sandbox_that_has_ended_or_whose_stop_has_just_come_is_not_read():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        w.stop()
        assert await w.loop.final_reading("s-1") is NOT_READ
        await w.until(asked + 3)
        assert w.tracked().progress.end is not None
        assert await w.loop.final_reading("s-1") is NOT_READ
        assert since(w, asked) == []


# Sandboxes that live on


@in_virtual_time
async def test_a_stop_that_failed_lets_it_be_read_on_at_once():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        await w.loop.final_reading("s-1")
        await w.until(asked + 20)
        w.stop(failed=True)
        await w.until(asked + 100)
        times = [time for time in w.provider.times("sample") if time > asked]
        assert asked + 20 <= times[0] < asked + 30
        assert all(on_phase(time) for time in times)
        assert [round(later - earlier, 6) for earlier, later in pairwise(times)] == [10] * (len(times) - 1)
        assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}
        assert len(final(w)) == 1
        assert len(w.provider.times("status")) == 1  # nobody asks: the stop has said it


@in_virtual_time
async def test_a_stop_that_failed_before_the_reading_was_asked_for_changes_nothing():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        reading = asyncio.create_task(w.loop.final_reading("s-1"))
        await w.until(asked + 0.5)
        w.stop(failed=True)
        assert await reading is RECORDED
        await w.until(asked + 29)
        assert since(w, asked) == [("sample", 0)]
        assert len(final(w)) == 1


@pytest.mark.parametrize("state", [RUNNING, SandboxState.PENDING, None], ids=["running", "pending", "no answer"])
def test_without_a_stop_it_is_read_on_once_its_state_was_asked_for(state):
    @in_virtual_time
    async def scenario():
        async with world() as w:
            w.start()
            asked = await between_readings(w, 20)
            await w.loop.final_reading("s-1")
            w.provider["s-1"].state = state
            await w.until(asked + 100)
            calls = since(w, asked)
            assert calls[:2] == [("sample", 0), ("status", 30)]
            assert [when for what, when in calls[2:] if what == "sample"] == [37, 47, 57, 67, 77, 87, 97]
            assert {entry.detail for entry in w.sink.of("sample")} == {(None, 0)}
            assert len(final(w)) == 1

    scenario()


@in_virtual_time
async def test_without_a_stop_a_sandbox_that_is_gone_has_ended_and_missed_nothing():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        await w.loop.final_reading("s-1")
        delete(w)
        await w.until(asked + 100)
        assert [(what, round(when)) for what, when in since(w, asked)] == [
            ("sample", 0),
            ("status", 30),
            ("status", 35),
        ]
        assert (summary(w)["reason"], summary(w)["missed"]) == ("gone", 0)
        assert len(w.finished) == 1


@in_virtual_time
async def test_a_sandbox_that_takes_long_to_go_is_not_read_meanwhile():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        await w.loop.final_reading("s-1")
        delete(w)
        w.provider["s-1"].state = SandboxState.STOPPING
        await w.until(asked + 80)
        w.provider["s-1"].state = NOT_FOUND
        await w.until(asked + 100)
        calls = since(w, asked)
        assert [what for what, _ in calls] == ["sample"] + ["status"] * (len(calls) - 1)
        assert all(later - earlier >= 5 for (_, earlier), (_, later) in pairwise(calls))
        assert (summary(w)["reason"], summary(w)["missed"]) == ("gone", 0)


@in_virtual_time
async def test_one_that_turns_out_to_be_paused_is_watched_as_any_other():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        await w.loop.final_reading("s-1")
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
        w.start()
        await w.until(20)
        w.provider["s-1"].sample = ErrorType.CONNECTION
        await w.wait_for(lambda: sum(entry.detail[1] for entry in w.sink.of("sample")) == 2)
        w.provider["s-1"].sample = None
        asked = await between_readings(w, w.provider.times("sample")[-1])
        await w.loop.final_reading("s-1")
        await w.until(asked + 25)
        w.stop(failed=True)
        delete(w)
        await w.until(asked + 100)
        # Two that failed while it was alive, and the one that their back-off put off.
        assert (summary(w)["reason"], summary(w)["missed"]) == ("gone", 3)


@in_virtual_time
async def test_a_question_that_crosses_the_next_wish_to_delete_does_not_read_it_on():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        await w.loop.final_reading("s-1")
        await w.until(asked + 30.005)  # the question is on its way
        assert await w.loop.final_reading("s-1") is RECORDED
        await w.until(asked + 60)
        assert [what for what, _ in since(w, asked)] == ["sample", "status", "sample"]


@in_virtual_time
async def test_a_leak_is_read_on_after_its_last_reading_and_can_have_another():
    async with world() as w:
        w.start()
        asked = await between_readings(w, 20)
        await w.loop.final_reading("s-1")
        w.stop()
        await w.until(asked + 400)
        assert w.tracked().progress.leaked
        later = [entry for entry in w.sink.of("sample") if entry.at > asked + 300]
        assert len(later) >= 9
        assert [entry.is_final for entry in later] == [False] * len(later)
        assert await w.loop.final_reading("s-1") is RECORDED
        assert len(final(w)) == 2


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
