"""A control plane that says nothing: it is asked in turn, no more than in health, and taken up again when it speaks."""

from itertools import pairwise

import pytest

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import EndReason, ErrorType
from support.reading_world import at, world
from support.virtual_time import in_virtual_time

IDS = [f"s-{number}" for number in range(40)]
CONTROL_PLANE = ("status", "allocation")


def silence(w, ids=IDS, error=ErrorType.TIMEOUT):
    for sandbox_id in ids:
        sandbox = w.provider[sandbox_id]
        sandbox.state, sandbox.sample, sandbox.allocation = None, error, error


def speak(w, ids=IDS):
    for sandbox_id in ids:
        sandbox = w.provider[sandbox_id]
        sandbox.state, sandbox.sample, sandbox.allocation = SandboxState.RUNNING, None, None


def asked(w, what, begin, end):
    return [call for call in w.provider.calls if call.what in what and begin <= call.at < end]


@in_virtual_time
async def test_sandboxes_without_word_share_one_question_an_interval():
    async with world() as w:
        for sandbox_id in IDS:
            w.start(sandbox_id)
        await w.until(30)
        silence(w)
        await w.until(1830)
        # Each asked once on its own account, when its reading failed; then one of all an interval.
        assert len(asked(w, ("status",), 30, 60)) <= len(IDS) + 10
        for begin in range(630, 1830, 300):
            assert len(asked(w, ("status",), begin, begin + 300)) == pytest.approx(30, abs=5)


@pytest.mark.parametrize("outage_s", [15, 120, 1800])
@in_virtual_time
async def test_all_are_read_within_an_interval_of_its_first_word(outage_s):
    async with world() as w:
        for sandbox_id in IDS:
            w.start(sandbox_id)
        await w.until(30)
        silence(w)
        await w.until(30 + outage_s)
        speak(w)
        begin = 30 + outage_s
        await w.until(begin + 10 + 1)
        assert {call.sandbox_id for call in asked(w, ("sample",), begin, begin + 11)} == set(IDS)
        await w.until(begin + 200)
        for sandbox_id in IDS:
            times = [time for time in w.provider.times("sample", sandbox_id) if time > begin + 30]
            assert {round(later - earlier) for earlier, later in pairwise(times)} == {10}


@in_virtual_time
async def test_failures_of_the_outage_prolong_no_pause_after_it():
    async with world() as w:
        one = IDS[0]
        w.start(one)
        await w.until(30)
        silence(w)
        await w.until(1830)
        speak(w)
        w.provider[one].sample = ErrorType.CONNECTION
        await w.until(1890)
        first, second, *_ = [time for time in w.provider.times("sample", one) if time > 1830]
        assert second - first <= 10


@in_virtual_time
async def test_what_began_in_the_outage_gets_its_allocation_as_soon_as_it_is_over():
    async with world() as w:
        silence(w)
        for sandbox_id in IDS:
            w.start(sandbox_id)
        await w.until(400)
        speak(w)
        begin = w.provider.times("status", IDS[0])[-1]
        await w.until(max(begin, 400) + 20)
        known = {entry.sandbox_id for entry in w.sink.entries if (entry.kind, entry.detail) == ("allocation", None)}
        assert known == set(IDS)


@in_virtual_time
async def test_a_first_word_on_the_expiry_that_failed_is_asked_for_again():
    async with world() as w:
        w.provider["s-1"].state = None
        w.start()
        await w.until(30)
        w.provider["s-1"].state, w.provider["s-1"].expires_at_ns = SandboxState.RUNNING, at(60)
        await w.until(50)
        w.provider["s-1"].state = SandboxState.NOT_FOUND
        await w.wait_for(lambda: w.sink.of("ended") != [])
    assert [entry.detail for entry in w.sink.of("ended")] == [EndReason.EXPIRED]


@in_virtual_time
async def test_ends_that_nobody_confirms_wait_for_their_turn_too():
    async with world(orphan_grace=10) as w:
        for sandbox_id in IDS:
            w.start(sandbox_id)
        await w.until(30)
        silence(w)
        for sandbox_id in IDS:
            w.stop(sandbox_id)
        await w.until(1800)
        assert len(asked(w, CONTROL_PLANE, 1200, 1800)) == pytest.approx(60, abs=10)
        speak(w)
        for sandbox_id in IDS:
            w.provider[sandbox_id].state = SandboxState.NOT_FOUND
        await w.wait_for(lambda: len(w.finished) == len(IDS))
        assert max(time for time, _ in w.finished) < 1800 + 60


@in_virtual_time
async def test_an_ended_sandbox_takes_no_turn():
    async with world(orphan_grace=5000) as w:
        for sandbox_id in IDS:
            w.start(sandbox_id)
        await w.until(30)
        silence(w, IDS[1:])
        await w.until(100)
        for sandbox_id in IDS[2:]:
            w.stop(sandbox_id)
        await w.until(700)
        times = [time for time in w.provider.times("status", IDS[1]) if time > 600]
        assert {round(later - earlier) for earlier, later in pairwise(times)} == {10}


@in_virtual_time
async def test_one_of_which_nothing_is_said_while_others_are_answered_is_read_less_often():
    async with world() as w:
        for sandbox_id in IDS:
            w.start(sandbox_id)
            w.provider[sandbox_id].state = SandboxState.PAUSED  # so that each is asked for at its interval
        silence(w, ["s-0"])
        await w.until(630)
        assert len(w.provider.times("status", "s-1")) > 50
        assert len(asked(w, ("sample",), 30, 630)) <= 60
        assert len([call for call in asked(w, ("status",), 30, 630) if call.sandbox_id == "s-0"]) <= 80
        missed = sum(entry.detail[1] for entry in w.sink.of("sample", "s-0"))
        assert missed == pytest.approx(63, abs=6)
        speak(w, ["s-0"])
        await w.until(700)
        assert w.sink.of("sample", "s-0")[-1].detail[0] is None
