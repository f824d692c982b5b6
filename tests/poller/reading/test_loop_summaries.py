"""When a summary is recorded: as soon as the rollout is known, and no later than it may."""

from support.reading_world import world
from support.virtual_time import in_virtual_time

OTHER_TRACE = b"\x02" * 16


@in_virtual_time
async def test_a_summary_comes_at_once_where_the_rollout_is_known_or_there_is_none():
    async with world() as w:
        w.start("named", root=False, rollout="7-0")
        w.start("root", root=True)
        w.start("child", root=False, trace_id=OTHER_TRACE)
        await w.until(33)
        for sandbox_id in ("named", "root", "child"):
            w.stop(sandbox_id)
            w.delete(sandbox_id)
        await w.until(34)
        assert [round(entry.at) for entry in w.sink.entries if entry.kind == "summary"] == [33, 33]
        await w.until(100)
        w.end_rollout("8-0", trace_id=OTHER_TRACE)
        await w.until(101)
        assert (w.sink.of("summary", "child")[0].at, w.summary("child")["rollout"]) == (100, "8-0")


@in_virtual_time
async def test_a_summary_waits_no_longer_for_its_rollout_than_it_may():
    async with world() as w:
        await w.live(33, root=False)
        w.stop()
        w.delete()
        await w.until(632)
        assert w.sink.of("summary") == []
        await w.until(700)
        assert [entry.at for entry in w.sink.of("summary")] == [633]
        assert w.summary()["rollout"] is None
        assert len(w.finished) == 1


@in_virtual_time
async def test_a_rollout_that_is_known_before_the_end_makes_no_difference():
    async with world() as w:
        w.end_rollout()
        await w.live(33, root=False)
        w.stop()
        await w.until(34)
        assert w.summary()["rollout"] == "7-0"
