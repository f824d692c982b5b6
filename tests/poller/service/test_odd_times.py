"""Spans whose times cannot be true, below a whole poller: tracked, and nothing that comes of such a time is told."""

import re
import time

import pytest
import requests

from sandgauge_schemas import names
from support.feed import feed, start_span, stop_span
from support.sandbox_records import SandboxRecords

SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
SECOND, HOUR, YEAR = 10**9, 3600 * 10**9, 365 * 86_400 * 10**9
# Begin and end of a start span and of its stop span, in ns from now; None is a field that was left out.
TIMES = {
    "true": ((-SECOND, 0), (0, 0)),
    "none": ((None, None), (None, None)),
    "of 1970": ((-56 * YEAR, -56 * YEAR), (-56 * YEAR, -56 * YEAR)),
    "ends before it starts": ((0, -SECOND), (0, -SECOND)),
    "an hour ahead": ((HOUR, HOUR), (HOUR, HOUR)),
    "a little ahead": ((0, 50 * SECOND), (0, 0)),
    "stopped before it started": ((0, 0), (-HOUR, -HOUR)),
}
ODD_SPANS = 8
FIRST_READ_AFTER_THEIR_END = 3
LAG = 'sandgauge_poller_discovery_lag_seconds_{}{{deployment="training"}}'


def retimed(span, times):
    """Return a span with only what it must have, and these times."""
    kept = {key: span[key] for key in ("traceId", "spanId", "name", "attributes")}
    now = time.time_ns()
    fields = zip(("startTimeUnixNano", "endTimeUnixNano"), times, strict=True)
    return kept | {field: str(now + off) for field, off in fields if off is not None}


def numbers_on_the_page(poller):
    page = requests.get(f"{poller.status_url}/metrics", timeout=60).text
    return {series: float(value) for series, value in re.findall(r"^(\w\S*) (\S+)$", page, re.MULTILINE)}


@pytest.fixture
def lives(make_poller, osb, otlp_sink):
    """Let a sandbox with each kind of times live and end; return its summaries by kind, and the page's numbers."""
    poller = make_poller()
    poller.start()
    ids = {kind: osb.create(limits={"cpu": "500m", "memory": "128Mi"}) for kind in TIMES}
    records_of = SandboxRecords(otlp_sink).of
    feed(poller.endpoint, *(retimed(start_span(id_), TIMES[kind][0]) for kind, id_ in ids.items()))
    otlp_sink.wait_for(lambda _: all(len(records_of(id_)) >= 2 for id_ in ids.values()))
    for id_ in ids.values():
        osb.delete(id_)
    feed(poller.endpoint, *(retimed(stop_span(id_), TIMES[kind][1]) for kind, id_ in ids.items()))
    otlp_sink.wait_for(lambda _: all(records_of(id_, SUMMARY) for id_ in ids.values()))
    return {kind: records_of(id_, SUMMARY) for kind, id_ in ids.items()}, numbers_on_the_page(poller)


def test_no_age_and_no_time_comes_of_a_time_that_cannot_be_true(lives, otlp_sink):
    began_ns, (summaries, numbers) = otlp_sink.requests()[0].time_ns, lives
    ended_ns = time.time_ns()
    lifetimes = {}
    for kind, found in summaries.items():
        (summary,) = found
        assert summary.attributes[names.NEMO_GYM_SANDBOX_END_REASON] == "stopped"
        lifetimes[kind] = summary.attributes.get(names.NEMO_GYM_SANDBOX_LIFETIME_S)
    told = {kind: seconds for kind, seconds in lifetimes.items() if seconds is not None}
    # Where a time contradicts the poller's own clock, that one counts.
    assert told.keys() == {"true", "a little ahead", "stopped before it started"}
    assert all(0 < lifetime <= (ended_ns - began_ns) / SECOND + 30 for lifetime in told.values())
    for span in otlp_sink.spans():
        assert began_ns - 2 * HOUR < span.start_ns <= span.end_ns <= ended_ns
    assert numbers['sandgauge_poller_spans_total{outcome="accepted",reason="odd_time"}'] == ODD_SPANS
    assert numbers[LAG.format("count")] == FIRST_READ_AFTER_THEIR_END
    assert 0 < numbers[LAG.format("sum")] < FIRST_READ_AFTER_THEIR_END * 30
