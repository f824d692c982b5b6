"""Start spans of sandboxes that nobody made: they cost the real ones nothing, and are let go."""

from itertools import pairwise

from sandgauge_poller.reading.provider import SandboxState
from sandgauge_schemas.names import ErrorType
from support.reading_world import key, world
from support.virtual_time import in_virtual_time


def forge(w, count):
    for number in range(count):
        forged = w.provider[f"forged-{number}"]
        forged.state, forged.allocation, forged.sample = SandboxState.NOT_FOUND, *[ErrorType.NOT_FOUND] * 2
        w.start(f"forged-{number}")


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
