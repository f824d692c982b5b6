"""A flood of start spans that somebody made up: the real sandboxes and their control plane notice nothing of it."""

import statistics
import time
from itertools import pairwise

import pytest

from sandgauge_poller.ingest.intake import EVENTS_AT_ONCE
from sandgauge_schemas import names
from support.fault_matrix import ROUTES
from support.feed import feed, start_span
from support.forged_spans import flood
from support.fuzz_run import peak_memory

pytestmark = pytest.mark.load

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
FORGED = 100_000
RATE = 20
MAX_SANDBOXES = 60
REAL = 5
INTERVAL_S = 2
MEMORY = 150 * 2**20
"""What so few sandboxes, batches of 5,000 spans and the memory of what was seen take at most."""


def gaps(sink, sandbox_id):
    starts = sorted(s.start_ns for s in sink.spans(SAMPLE) if s.attributes[names.NEMO_GYM_SANDBOX_ID] == sandbox_id)
    return [(later - earlier) / 1e9 for earlier, later in pairwise(starts)]


def spans_by_outcome(sink):
    points = sink.points(names.METRIC_SANDGAUGE_POLLER_SPANS)
    return {(p.attributes[names.OUTCOME], p.attributes.get(names.REASON)): p.value for p in points}


def test_a_flood_of_forged_spans_changes_nothing_for_the_real_ones(make_poller, osb, otlp_sink):
    deployment = {"name": "training", "endpoint": osb.url, "max_requests_per_second": RATE}
    sampling = {"collection_interval": f"{INTERVAL_S}s"}
    poller = make_poller(deployments=[deployment], tracking={"max_sandboxes": MAX_SANDBOXES}, sampling=sampling)
    poller.start()
    real = [osb.create(limits={"cpu": "500m", "memory": "128Mi"}) for _ in range(REAL)]
    feed(poller.endpoint, *(start_span(id_) for id_ in real))
    otlp_sink.wait_for(lambda sink: all(len(gaps(sink, id_)) >= 3 for id_ in real))
    before, begun = peak_memory(poller.pid), time.monotonic()
    flood(poller.endpoint, FORGED)
    otlp_sink.wait_for(lambda sink: all(len(gaps(sink, id_)) > 12 for id_ in real), 90)
    otlp_sink.wait_for(lambda sink: sum(spans_by_outcome(sink).values()) >= FORGED + REAL)
    asked = sorted(seen.at for route in ROUTES for seen in osb.requests(route) if seen.at > begun)
    assert asked
    # On the way the questions of one second may be held up and meet those of the next.
    assert max(sum(1 for at in asked if first <= at < first + 1) for first in asked) <= 2 * RATE
    assert len(asked) <= RATE * (asked[-1] - asked[0]) + RATE
    for id_ in real:
        times = gaps(otlp_sink, id_)[1:]  # from the first reading to the first on its own phase it is less or more
        assert all(abs(gap - INTERVAL_S) < INTERVAL_S * 0.75 for gap in times), times
        assert abs(statistics.median(times) - INTERVAL_S) < INTERVAL_S / 20
    assert peak_memory(poller.pid) - before < MEMORY
    counted = spans_by_outcome(otlp_sink)
    # No commit displaces more than there are.
    assert counted["rejected", "capacity"] >= FORGED - (FORGED / EVENTS_AT_ONCE + 5) * MAX_SANDBOXES
    # Nothing speaks for them, so they make room at once for one that comes, while all places are taken.
    flood(poller.endpoint, MAX_SANDBOXES)
    late = [osb.create(limits={"cpu": "500m", "memory": "128Mi"}) for _ in range(REAL)]
    feed(poller.endpoint, *(start_span(id_) for id_ in late))
    otlp_sink.wait_for(lambda sink: all(gaps(sink, id_) for id_ in late), 90)
    flood(poller.endpoint, FORGED // 10)
    seen = {id_: len(gaps(otlp_sink, id_)) for id_ in [*real, *late]}
    otlp_sink.wait_for(lambda sink: all(len(gaps(sink, id_)) > count + 3 for id_, count in seen.items()), 90)
