"""The lines of docs/collector.md that add the feed to a Collector that somebody already runs, run in one."""

from contextlib import contextmanager

import pytest

from sandgauge_demo.collector import Destinations, RunningCollector
from sandgauge_schemas.names import (
    SANDGAUGE_POLLER_SERVICE_NAME,
    SERVICE_NAME,
    SPAN_GYM_ROLLOUT,
    SPAN_GYM_SANDBOX_REQUEST,
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    SPAN_GYM_SANDBOX_START,
    SPAN_GYM_SANDBOX_STOP,
)
from support.documents import code_block, document, section
from support.otlp_json import captured, from_resource, span, traces
from support.otlp_sink import OtlpSink
from support.real_collector import NOBODY, config_files, real_collector, send

pytestmark = pytest.mark.integration

SNIPPET = code_block(
    section(document("collector.md"), "Add the feed to a Collector that you already run"), "yaml", "sandgauge"
)
LIFECYCLE = [SPAN_GYM_SANDBOX_REQUEST, SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP, SPAN_GYM_ROLLOUT]

# Written by people who never heard of Sandgauge.
FOREIGN = """
receivers:
  otlp: { protocols: { http: { endpoint: "127.0.0.1:${env:OTLP_HTTP_PORT}" } } }
processors:
  batch: { timeout: 50ms }
  filter/ours: { error_mode: ignore, trace_conditions: ['IsMatch(span.name, "^gym")'] }
exporters:
  otlp_http: { endpoint: "${env:TRACES_OTLP_ENDPOINT}" }
extensions:
  health_check: { endpoint: "127.0.0.1:${env:OTELCOL_HEALTH_PORT}" }
service:
  extensions: [health_check]
  telemetry: { metrics: { level: none } }
  pipelines:
    traces: { receivers: [otlp], processors: [filter/ours, batch], exporters: [otlp_http] }
"""


@contextmanager
def foreign_collector(directory, *, poller, traces=NOBODY):
    snippet = SNIPPET.replace("http://poller.example.com:4319", poller)
    snippet = snippet.replace("/var/lib/otelcol/sandgauge", str(directory / "queue"))
    assert snippet.count(str(directory)) == snippet.count(poller) == 1
    files = directory / "foreign.yaml", directory / "sandgauge.yaml"
    for file, text in zip(files, (FOREIGN, snippet), strict=True):
        file.write_text(text)
    destinations = Destinations(poller=NOBODY, traces=traces, metrics=NOBODY)
    binary = real_collector(config_files())
    with RunningCollector(binary, files, directory=directory, destinations=destinations) as running:
        yield running


def test_ten_lines_are_ten():
    assert len(SNIPPET.splitlines()) == 10


def test_the_poller_gets_the_lifecycle_and_the_rest_stays_as_it_was(tmp_path):
    mixed = [*LIFECYCLE, "gym.verify", SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, f"{SPAN_GYM_SANDBOX_START}s", "HTTP POST"]
    with (
        OtlpSink() as poller,
        OtlpSink() as store,
        foreign_collector(tmp_path, poller=poller.endpoint, traces=store.endpoint) as running,
    ):
        assert send(running, traces(from_resource({SERVICE_NAME: "nemo-gym"}, *map(span, mixed)))) == 200
        assert send(running, traces(from_resource({SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME}, span("any")))) == 200
        poller.wait_for(lambda sink: len(sink.spans()) >= len(LIFECYCLE))
        store.wait_for(lambda sink: len(sink.spans()) >= 2)
    assert [one.name for one in poller.spans()] == LIFECYCLE
    assert sorted(one.name for one in store.spans()) == ["HTTP POST", "any"]


def test_the_feed_of_a_stock_gym_outlives_poller_and_collector(tmp_path):
    with OtlpSink() as down:
        pass
    with foreign_collector(tmp_path, poller=down.endpoint) as running:
        assert send(running, captured("rollout")) == 200
        running.kill()
        running.start()
        with OtlpSink(down.port) as poller:
            poller.wait_for(lambda sink: len(sink.spans()) == 14)
