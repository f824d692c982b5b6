"""The gauge series of a sandbox that has ended: closed once each, and not again by a poller that comes back."""

import pytest

from sandgauge_schemas import names
from support.delivered import ids_in
from support.feed import feed, start_span, stop_span

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
GAUGES = {
    names.METRIC_GYM_SANDBOX_CPU_COUNT,
    names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE,
    names.METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB,
    names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB,
}
LIMITS = {"cpu": "500m", "memory": "128Mi"}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_series_is_closed_once_over_a_restart(make_poller, osb, otlp_sink, end):
    poller = make_poller()
    poller.start()
    sandbox_id = osb.create(limits=LIMITS)

    def points(*, closing):
        found = [one for one in otlp_sink.points() if one.attributes.get(names.NEMO_GYM_SANDBOX_ID) == sandbox_id]
        return [one for one in found if (one.value is None) is closing]

    feed(poller.endpoint, start_span(sandbox_id))
    otlp_sink.wait_for(lambda _: len(points(closing=False)) >= 2 * len(GAUGES))
    osb.delete(sandbox_id)
    feed(poller.endpoint, stop_span(sandbox_id))
    otlp_sink.wait_for(lambda _: len(points(closing=True)) >= len(GAUGES))
    getattr(poller, end)()
    poller.start()
    # Another one's reading is on its way behind whatever the poller had to say of the first.
    other = osb.create(limits=LIMITS)
    feed(poller.endpoint, start_span(other))
    otlp_sink.wait_for(lambda sink: other in ids_in(sink, SAMPLE))
    poller.stop()
    closing, live = points(closing=True), points(closing=False)
    # What was not known to be delivered when the poller was killed comes again, byte for byte.
    assert {one.name for one in closing} == GAUGES
    assert len({(one.name, one.time_ns, tuple(one.attributes.items())) for one in closing}) == len(GAUGES)
    assert end == "kill" or len(closing) == len(GAUGES)
    for one in closing:
        last = max((p for p in live if p.name == one.name), key=lambda point: point.time_ns)
        assert one.attributes == last.attributes
        assert one.time_ns > last.time_ns
