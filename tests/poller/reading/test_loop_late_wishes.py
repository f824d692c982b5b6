"""An earlier start span that comes later: it decides whether a sandbox is read, as it would have done at once."""

import pytest

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.progress import Progress, Series
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.reading_world import TRACE, at, world
from support.virtual_time import in_virtual_time


def started(seconds, hint):
    record = StartRecord(keys=JoinKeys(sandbox_id="s-1", provider="opensandbox"), sample_interval_s=hint)
    times = {"start_ns": at(seconds), "end_ns": at(seconds), "received_ns": at(0)}
    return StartEvent(trace_id=TRACE, span_id=int(seconds + 2000).to_bytes(8, "big"), **times, record=record)


EARLY_NOT_READ = (started(-20, 0.0), started(-10, None))
EARLY_READ = (started(-20, None), started(-10, 0.0))


@pytest.mark.parametrize(("spans", "is_read"), [(EARLY_NOT_READ, False), (EARLY_READ, True)])
@pytest.mark.parametrize("late_first", [False, True])
@in_virtual_time
async def test_whether_a_sandbox_is_read_does_not_depend_on_the_order_of_its_start_spans(spans, is_read, late_first):
    async with world() as w:
        first, second = reversed(spans) if late_first else spans
        w.apply(first)
        await w.until(33)
        w.apply(second)
        await w.until(36)  # what was on its way may end
        before = len(w.provider.calls)
        await w.until(66)
        assert (len(w.provider.calls) > before) is is_read
        w.stop()
        w.delete()
        await w.until(400)
        assert len(w.finished) == 1
        assert w.kinds().count("summary") == is_read


@in_virtual_time
async def test_a_sandbox_that_is_read_no_more_has_its_series_closed_after_what_was_on_its_way():
    async with world() as w:
        w.apply(started(-10, None))
        await w.wait_for(lambda: bool(w.provider.times("sample")))
        w.apply(started(-20, 0.0))
        await w.until(5)
        assert w.kinds()[-2:] == ["sample", "ended"]
        await w.until(500)
        assert w.kinds()[-1] == "ended"
        assert w.tracked().progress.end is None


@in_virtual_time
async def test_series_of_before_a_restart_are_closed_where_the_sandbox_is_not_read_any_more():
    async with world(collection_interval=0.0) as w:
        w.restore([started(-1000, None)], {"s-1": Progress(series={"m": Series({}, at(-10))})})
        await w.until(1)
        assert w.kinds() == ["ended"]
        w.stop()
        await w.until(2)
        assert [sandbox_id for _, sandbox_id in w.finished] == ["s-1"]
        assert w.provider.calls == []
