"""The shards overlay, in a real Collector: two pollers that know nothing of each other's troubles."""

import pytest

from sandgauge_schemas.names import SPAN_GYM_SANDBOX_EXEC, SPAN_GYM_SANDBOX_START
from support.otlp_json import from_resource, span, traces
from support.otlp_sink import Answer, OtlpSink
from support.real_collector import SHARDS, collector, send

pytestmark = pytest.mark.integration


def two_pollers(directory, first, second):
    return collector(directory, SHARDS, settings={"POLLER_0_OTLP_ENDPOINT": first, "POLLER_1_OTLP_ENDPOINT": second})


def send_starts(running, count):
    starts = [span(SPAN_GYM_SANDBOX_START) for _ in range(count)]
    requests = [traces(from_resource({}, start, span(SPAN_GYM_SANDBOX_EXEC))) for start in starts]
    assert [send(running, request) for request in requests] == [200] * count
    return [start["spanId"] for start in starts]


def feed(sink, count):
    """Return the ids of the spans that the poller has, in their order, once there are so many."""
    sink.wait_for(lambda sink: len(sink.spans()) >= count)
    return [one.span_id for one in sink.spans()]


def test_each_poller_gets_the_whole_feed_once(tmp_path):
    with OtlpSink() as first, OtlpSink() as second, two_pollers(tmp_path, first.endpoint, second.endpoint) as running:
        sent = send_starts(running, 10)
        assert feed(first, 10) == feed(second, 10) == sent


def test_a_poller_that_is_away_holds_up_nobody_and_gets_everything_later(tmp_path):
    with OtlpSink() as absent:
        pass
    with OtlpSink() as present, two_pollers(tmp_path, present.endpoint, absent.endpoint) as running:
        sent = send_starts(running, 20)
        assert feed(present, 20) == sent
        running.kill()
        running.start()
        sent += send_starts(running, 5)
        # After a kill a span may come twice: what was under way is sent again.
        present.wait_for(lambda sink: {one.span_id for one in sink.spans()} == set(sent))
        with OtlpSink(absent.port) as back:
            back.wait_for(lambda sink: {one.span_id for one in sink.spans()} == set(sent))


def test_a_poller_that_is_busy_or_refuses_for_good_holds_up_nobody(tmp_path):
    with OtlpSink() as well, OtlpSink() as ill, two_pollers(tmp_path, well.endpoint, ill.endpoint) as running:
        ill.script(Answer(status=400), *(Answer(status=503, headers={"Retry-After": "3600"}) for _ in range(3)))
        sent = send_starts(running, 10)
        assert feed(well, 10) == sent
        assert ill.spans() == []
