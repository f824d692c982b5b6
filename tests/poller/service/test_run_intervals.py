"""A run says on its start spans how often its sandboxes are to be read; the poller's own settings are the bounds."""

import time
from itertools import pairwise
from statistics import median

import pytest

from sandgauge_demo.deployment import DeploymentSettings, Route
from sandgauge_schemas import names
from support.feed import feed, start_span, stop_span
from support.simulated_osb import osb_in_thread

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
READ = (Route.GET, Route.INSPECT, Route.ENDPOINT, Route.PROXY, Route.EXECD)


@pytest.fixture
def osb():
    """Blocks shorter than the shortest interval, so that the intervals show."""
    with osb_in_thread(DeploymentSettings(metrics_delay_s=0.05)) as deployment:
        yield deployment


def hinted(sandbox_id, interval_s):
    return start_span(sandbox_id, attributes={names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: interval_s})


def begun_s(seen, sandbox_id):
    """Return when the sandbox's readings began, without the first, which comes at once."""
    spans = [span for span in seen.spans(SAMPLE) if span.attributes[names.NEMO_GYM_SANDBOX_ID] == sandbox_id]
    return sorted(span.start_ns / 1e9 for span in spans)[1:]


def of(seen, sandbox_id):
    return {span.name for span in seen.spans() if span.attributes.get(names.NEMO_GYM_SANDBOX_ID) == sandbox_id}


def test_zero_is_not_read_a_shorter_one_is_clamped_and_none_is_the_pollers_own(osb, make_poller, otlp_sink):
    unread, hurried, slow, own = (osb.create() for _ in range(4))
    with make_poller(sampling={"collection_interval": "1500ms", "min_interval": "500ms"}) as poller:
        spans = [hinted(unread, 0.0), hinted(hurried, 0.01), hinted(slow, 2.5), start_span(own)]
        feed(poller.endpoint, *spans)
        otlp_sink.wait_for(lambda seen: len(begun_s(seen, slow)) >= 6)  # one that is late leaves the median alone
        feed(poller.endpoint, *(stop_span(sandbox_id) for sandbox_id in (unread, hurried, slow, own)))
        otlp_sink.wait_for(lambda seen: len(seen.spans(SUMMARY)) == 3)
    assert of(otlp_sink, unread) == set()
    assert [osb.count(route, unread) for route in READ] == [0] * len(READ)
    gaps = {
        sandbox_id: median(later - earlier for earlier, later in pairwise(begun_s(otlp_sink, sandbox_id)))
        for sandbox_id in (hurried, slow, own)
    }
    assert gaps == pytest.approx({hurried: 0.5, slow: 2.5, own: 1.5}, abs=0.1)


def test_the_pollers_own_zero_beats_every_wish(osb, make_poller, otlp_sink):
    sandbox_ids = [osb.create() for _ in range(2)]
    with make_poller(sampling={"collection_interval": "0"}) as poller:
        feed(poller.endpoint, hinted(sandbox_ids[0], 0.5), start_span(sandbox_ids[1]))
        time.sleep(2)  # four of the intervals that were wished for
        feed(poller.endpoint, *map(stop_span, sandbox_ids))
    assert [osb.count(route, sandbox_id) for route in READ for sandbox_id in sandbox_ids] == [0] * 2 * len(READ)
    assert otlp_sink.spans() == []
