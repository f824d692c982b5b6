"""A newcomer's first reading comes when it can, off its phase: what it waits for is not missed."""

import pytest

from support.reading_world import world
from support.virtual_time import in_virtual_time


@pytest.mark.parametrize("interval", [1.3, 2.0, 2.1, 2.2, 3.0, 10.0])
@pytest.mark.parametrize("takes_s", [1.0, 1.05, 1.2])
@in_virtual_time
async def test_a_newcomer_whose_interval_is_hardly_longer_than_its_reading_has_missed_nothing(interval, takes_s):
    async with world(collection_interval=interval, min_interval=1.0) as w:
        ids = [f"s-{number}" for number in range(40)]
        for sandbox_id in ids:
            w.provider[sandbox_id].sample_takes_s = takes_s
            w.start(sandbox_id)
        await w.until(20)
        assert {entry.detail for entry in w.sink.entries if entry.kind == "sample"} == {(None, 0)}


@pytest.mark.parametrize("waits_s", [4, 17, 33, 61])
@in_virtual_time
async def test_waiting_for_the_first_reading_is_no_missed_reading(waits_s):
    async with world() as w:
        # A deployment's rate is shared by all who come at once: each asks for its daemon's address first.
        w.provider["s-1"].sample_takes_s = waits_s
        w.start()
        await w.until(waits_s)
        w.provider["s-1"].sample_takes_s = 1.0
        await w.until(waits_s + 60)
        assert [entry.detail for entry in w.sink.of("sample")] == [(None, 0)] * len(w.sink.of("sample"))
        assert len(w.sink.of("sample")) >= 6
