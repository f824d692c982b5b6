"""All overlays but security in one real Collector: each does its part beside the others, without a warning."""

import json

import pytest

from sandgauge_schemas.names import METRIC_GYM_SANDBOX_CPU_COUNT, NEMO_GYM_SANDBOX_ID, NEMO_RUN_ID
from support.otlp_json import captured, gauge, metrics, point
from support.otlp_sink import OtlpSink
from support.real_collector import REMOTE_WRITE, SECURITY, collector, complaints, overlays, send
from support.remote_write_sink import RemoteWriteSink
from support.waiting import wait_until

pytestmark = pytest.mark.integration

CPU_COUNT = "gym_sandbox_cpu_count"
SANDBOX = {NEMO_GYM_SANDBOX_ID: "sandbox-1"}


def test_they_work_together_without_a_warning(tmp_path):
    together = tuple(name for name in overlays() if name != SECURITY)
    with (
        OtlpSink() as first,
        OtlpSink() as second,
        OtlpSink() as store,
        RemoteWriteSink() as prometheus,
        collector(
            tmp_path,
            *together,
            traces=store.endpoint,
            settings={
                "POLLER_0_OTLP_ENDPOINT": first.endpoint,
                "POLLER_1_OTLP_ENDPOINT": second.endpoint,
                "PROMETHEUS_REMOTE_WRITE_ENDPOINT": prometheus.url,
                "FLEET_FLUSH_INTERVAL": "1s",
                "JOIN_WINDOW": "100ms",
            },
        ) as running,
    ):
        assert send(running, captured("rollout")) == 200
        assert send(running, metrics({}, gauge(METRIC_GYM_SANDBOX_CPU_COUNT, point(2.0, SANDBOX)))) == 200
        for poller in (first, second):
            poller.wait_for(lambda sink: len(sink.spans()) == 14)
        store.wait_for(lambda sink: len(sink.spans()) >= 14)
        for name in ("gym_sandbox_spans_calls", "gym_sandbox_spans_duration_bucket", "gym_sandbox_start_duration"):
            prometheus.wait_for(lambda sink, name=name: sink.samples(name) != [])
        prometheus.wait_for(lambda sink: sink.samples(CPU_COUNT) != [])
        wait_until(running.joined_file.exists, timeout_s=60, what="a joined file")
    assert [json.loads(line) for line in running.joined_file.read_text().splitlines()]
    assert complaints(running) == []


def test_prometheus_gets_names_without_suffixes_keys_as_labels_and_the_end_of_a_series(tmp_path):
    reading = gauge(
        METRIC_GYM_SANDBOX_CPU_COUNT,
        point(2.0, SANDBOX, time_ns=1_795_962_400_001_000_000),
        point(None, SANDBOX, time_ns=1_795_962_400_002_000_000),
        unit="{cpu}",
    )
    with (
        RemoteWriteSink() as prometheus,
        collector(tmp_path, REMOTE_WRITE, settings={"PROMETHEUS_REMOTE_WRITE_ENDPOINT": prometheus.url}) as running,
    ):
        assert send(running, metrics({NEMO_RUN_ID: "run-1", "service.name": "sandgauge-poller"}, reading)) == 200
        prometheus.wait_for(lambda sink: len(sink.samples(CPU_COUNT)) == 2)
        last, closing = prometheus.samples(CPU_COUNT)
    assert (last.value, last.is_stale, last.time_ms) == (2.0, False, 1_795_962_400_001)
    assert (closing.is_stale, closing.time_ms) == (True, 1_795_962_400_002)
    assert {key: value for key, value in last.labels.items() if not key.startswith("otel_scope")} == {
        "__name__": CPU_COUNT,
        "job": "sandgauge-poller",
        "nemo_run_id": "run-1",
        "nemo_gym_sandbox_id": "sandbox-1",
    }
