"""Start spans of sandboxes that nobody made: they cost the real ones nothing, and are let go."""

from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from sandgauge_poller.reading.limits import RateLimit
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.tracking.active_set import Change, ChangeKind
from sandgauge_schemas.names import ErrorType
from support.reading_world import TRACE, key, world
from support.virtual_time import in_virtual_time

RATE = 20
WITHIN_S = 3.0
"""How late a first reading may be, at RATE questions a second: four turns of four questions, and a window of 1 s."""


def forge(w, count, first=0, trace_id=b"\x02" * 16):
    for number in range(first, first + count):
        forged = w.provider[f"forged-{number}"]
        forged.state, forged.allocation, forged.sample = SandboxState.NOT_FOUND, *[ErrorType.NOT_FOUND] * 2
        w.start(f"forged-{number}", trace_id=trace_id)


@in_virtual_time
async def test_a_sandbox_counts_as_load_once_it_has_answered():
    async with world() as w:
        w.provider.slots = 1
        forge(w, 500)
        w.start("real")
        await w.until(4)
        assert w.context.stretch("training") == 1
        assert len(w.context.loads["training"]) == 1
        for number in range(50):
            w.start(f"real-{number}")
        await w.until(8)
        assert len(w.context.loads["training"]) == 51
        assert w.context.stretch("training") > 5


@in_virtual_time
async def test_forged_ones_are_let_go_and_the_real_one_keeps_its_cadence():
    async with world(rate=50.0) as w:
        w.provider.slots = 16
        w.start("real")
        forge(w, 500)
        await w.until(120)
        times = w.provider.times("sample", "real")
        assert {round(later - earlier) for earlier, later in pairwise(times[1:])} == {10}
        assert [s.key for s in w.active] == [key("real")]


@asynccontextmanager
async def limited_world():
    """Run a loop whose control plane takes so many questions a second, of whatever kind."""
    async with world(rate=RATE) as w:
        w.provider.limit = RateLimit(RATE, w.context.clock)
        yield w
        times = [call.at for call in w.provider.calls]
        for first in times:
            assert sum(first <= at < first + 1 - 1e-6 for at in times) <= RATE


@pytest.mark.parametrize("run", [None, "run-1", "run-2"])
@pytest.mark.parametrize("trace_of_the_flood", [b"\x02" * 16, TRACE])
@in_virtual_time
async def test_a_real_newcomer_waits_for_hardly_any_of_a_flood(run, trace_of_the_flood):
    async with limited_world() as w:
        w.start("real", run="run-1")
        await w.until(5)
        forge(w, 2000, trace_id=trace_of_the_flood)
        for second in range(10, 60, 10):
            await w.until(second)
            w.start(f"late-{second}", run=run, trace_id=second.to_bytes(16, "big"))
            await w.until(second + WITHIN_S)
            assert w.provider.times("sample", f"late-{second}")
            assert w.provider.times("allocation", f"late-{second}")
        times = w.provider.times("sample", "real")
        assert all(abs(later - earlier - 10) < WITHIN_S for earlier, later in pairwise(times[1:]))
        assert len(times) >= 6


@in_virtual_time
async def test_a_flood_that_goes_on_does_not_starve_who_came_before_it():
    async with limited_world() as w:
        forge(w, 50)
        w.start("real")
        for second in range(46):
            await w.until(second)
            forge(w, 50, first=1000 + 50 * second)
        # The 50 before it and itself, each fourth turn, at five turns a second.
        assert w.provider.times("sample", "real")[0] < 51 * 4 / 5 + WITHIN_S


@in_virtual_time
async def test_one_that_was_made_up_costs_four_questions():
    async with limited_world() as w:
        forge(w, 20)
        await w.until(60)
        assert not list(w.active)
        assert len(w.provider.calls) == 20 * 4


@in_virtual_time
async def test_nothing_is_kept_or_asked_of_those_that_made_room():
    async with world(rate=RATE) as w:
        forge(w, 100)
        real = w.start("real")
        await w.until(0.5)
        forged = [sandbox for sandbox in w.active if sandbox is not real]
        for sandbox in forged:
            w.active.discard(sandbox)
            w.loop.on_change(Change(ChangeKind.DISPLACED, sandbox))
        asked = len(w.provider.calls)
        await w.until(30)
        assert {call.sandbox_id for call in w.provider.calls[asked:]} == {"real"}
        assert set(w.context.paces) == {real.key}
        assert len(w.context.newcomers["training"]) == 0


@in_virtual_time
async def test_those_that_do_not_exist_make_room_before_older_ones():
    async with world() as w:
        w.provider["silent"].allocation = w.provider["silent"].sample = ErrorType.TIMEOUT
        w.start("silent", root=False)
        w.start("forged-1", root=False)
        w.provider["forged-1"].state = SandboxState.NOT_FOUND
        w.provider["forged-1"].allocation = w.provider["forged-1"].sample = ErrorType.NOT_FOUND
        await w.wait_for(lambda: w.tracked("forged-1").progress.end is not None)
        start = w.tracked("silent").lifecycle.start
        assert [w.active.make_room(start).key.sandbox_id for _ in range(2)] == ["forged-1", "silent"]
        assert w.active.make_room(start) is None
