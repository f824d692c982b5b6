"""What a real Collector with the shipped configuration keeps, and whom it makes wait, when something is away."""

import re

import pytest
import requests

from sandgauge_demo.collector import CollectorError
from sandgauge_schemas.names import METRIC_GYM_SANDBOX_CPU_COUNT, SPAN_GYM_SANDBOX_START
from support.otlp_json import from_resource, gauge, metrics, point, span, traces
from support.otlp_sink import Answer, OtlpSink
from support.real_collector import collector, complaints, send

pytestmark = pytest.mark.integration

TINY_BACKEND_QUEUES = """
exporters:
  otlp_http/traces: { sending_queue: { queue_size: 2, batch: { flush_timeout: 10ms, min_size: 1, max_size: 1 } } }
  otlp_http/metrics: { sending_queue: { queue_size: 2 } }
"""
QUICK_RETRIES = """
exporters:
  otlp_http/poller: { retry_on_failure: { initial_interval: 10ms, max_interval: 10ms } }
"""


@pytest.fixture
def overlay(tmp_path):
    def write(text):
        path = tmp_path / "overlay.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def port():
    """Return a port where nobody listens now and a sink will later."""
    with OtlpSink() as sink:
        return sink.port


def send_starts(running, count):
    """Send start spans one by one; return the ids of those that were acknowledged and the answers to the others."""
    acknowledged, refusals = set(), []
    for _ in range(count):
        start = span(SPAN_GYM_SANDBOX_START)
        status = send(running, traces(from_resource({}, start)))
        if status == 200:
            acknowledged.add(start["spanId"])
        else:
            refusals.append(status)
    return acknowledged, refusals


def feed(sink):
    return sorted(one.span_id for one in sink.spans())


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_nothing_acknowledged_is_lost_from_the_feed(tmp_path, port, end):
    with collector(tmp_path, poller=f"http://127.0.0.1:{port}") as running:
        before, refused_before = send_starts(running, 30)
        getattr(running, end)()
        running.start()
        after, refused_after = send_starts(running, 10)
        assert (refused_before, refused_after) == ([], [])
        with OtlpSink(port) as poller:
            poller.wait_for(lambda sink: len(sink.spans()) >= 40, 30)
            assert feed(poller) == sorted(before | after)


def test_full_queue_of_the_feed_is_an_error_for_gym_and_loses_nothing_older(tmp_path, port):
    settings = {"POLLER_QUEUE_BYTES": "1000"}
    with collector(tmp_path, poller=f"http://127.0.0.1:{port}", settings=settings) as running:
        acknowledged, refusals = send_starts(running, 30)
        assert acknowledged
        assert set(refusals) == {503}
        with OtlpSink(port) as poller:
            poller.wait_for(lambda sink: len(sink.spans()) >= len(acknowledged), 30)
            assert feed(poller) == sorted(acknowledged)


def test_dead_backends_with_full_queues_neither_push_back_on_gym_nor_hold_up_the_feed(tmp_path, overlay):
    with OtlpSink() as poller, collector(tmp_path, overlay(TINY_BACKEND_QUEUES), poller=poller.endpoint) as running:
        starts, refused_starts = send_starts(running, 40)
        reading = metrics({}, gauge(METRIC_GYM_SANDBOX_CPU_COUNT, point(1.0, {}), unit="{cpu}"))
        refused_points = [status for status in (send(running, reading) for _ in range(40)) if status != 200]
        assert (refused_starts, refused_points) == ([], [])
        poller.wait_for(lambda sink: len(sink.spans()) >= 40)
        assert feed(poller) == sorted(starts)
    overflows = {signal for line in complaints(running) for signal in re.findall(r'"otelcol.signal": "(\w+)"', line)}
    assert overflows == {"traces", "metrics"}


def test_poller_that_asks_for_patience_gets_it(tmp_path, overlay):
    with OtlpSink() as poller, collector(tmp_path, overlay(QUICK_RETRIES), poller=poller.endpoint) as running:
        poller.script(*(Answer(status=status) for status in (429, 502, 503, 504)))
        sent, _ = send_starts(running, 1)
        poller.wait_for(lambda sink: sink.spans() != [])
        assert [one.status for one in poller.requests()] == [429, 502, 503, 504, 200]
        assert feed(poller) == sorted(sent)


def test_any_other_answer_of_the_poller_is_final_counted_and_holds_up_nothing(tmp_path):
    with OtlpSink() as poller, collector(tmp_path, poller=poller.endpoint) as running:
        poller.script(*(Answer(status=status) for status in (400, 404, 500)))
        send_starts(running, 4)
        poller.wait_for(lambda sink: sink.spans() != [])
        assert [one.status for one in poller.requests()] == [400, 404, 500, 200]
        counted = requests.get(running.self_metrics_url, timeout=10).text
        assert re.search(r'otelcol_exporter_send_failed_spans{[^}]*"otlp_http/poller"[^}]*} 3\n', counted)
        assert len([line for line in complaints(running) if "Dropping data" in line]) == 3


def test_damaged_queue_file_stops_the_start_until_it_is_deleted(tmp_path):
    running = collector(tmp_path)
    running.start()
    running.kill()
    queue = tmp_path / "queues" / "exporter_otlp_http_poller_traces"
    queue.write_bytes(b"noise" * 10_000)
    with pytest.raises(CollectorError, match=r'"otlp_http/poller" exporter: invalid database'):
        running.start()
    queue.unlink()
    with running:
        assert send(running, traces(from_resource({}, span(SPAN_GYM_SANDBOX_START)))) == 200


def test_second_collector_on_the_same_folder_does_not_start(tmp_path):
    with collector(tmp_path), pytest.raises(CollectorError, match=r'"otlp_http/poller" exporter: timeout'):
        collector(tmp_path).start()
