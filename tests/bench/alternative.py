"""`python -m bench.alternative`: how one would write it first, with the usual libraries used as they are meant to be.

A pool of threads with requests, kept connections, the SDK's spans in batches, observable gauges, the official exporter.
Nothing is lost that need not be: queue, batches and the limit of series are as large as the fleet wants them. What the
poller does beyond that (lifecycle, allocation, scopes, a queue on disk) is left out.

Takes from standard input a JSON object: `addresses` of daemons, the `sandboxes` there (`keys`, `trace_id`,
`parent_span_id`), `interval_s`, and the `endpoint` of the Collector.
"""

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider, ObservableGauge
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from sandgauge_schemas import names

_TIMEOUT_S = 2.0
_RESOURCE = Resource({names.SERVICE_NAME: "bench-alternative"})
_GAUGES = {
    "cpu_count": (names.METRIC_GYM_SANDBOX_CPU_COUNT, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT),
    "cpu_used_pct": (names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE),
    "mem_total_mib": (names.METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB),
    "mem_used_mib": (names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB),
}


class Alternative:
    """Reads each sandbox once an interval; its last numbers are what the gauges show."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._sandboxes = given["sandboxes"]
        self._urls = [f"http://{address}/metrics" for address in given["addresses"]]
        self._interval_s = given["interval_s"]
        self._last: list[dict[str, float] | None] = [None] * len(self._urls)
        size = len(self._urls)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount("http://", requests.adapters.HTTPAdapter(pool_connections=size, pool_maxsize=1))
        endpoint = given["endpoint"]
        tracing = TracerProvider(resource=_RESOURCE)
        spans = OTLPSpanExporter(f"{endpoint}/v1/traces", compression=Compression.Gzip)
        tracing.add_span_processor(
            BatchSpanProcessor(spans, max_queue_size=50_000, max_export_batch_size=2000, schedule_delay_millis=1000)
        )
        self._tracer = tracing.get_tracer("alternative")
        points = OTLPMetricExporter(f"{endpoint}/v1/metrics", compression=Compression.Gzip)
        reader = PeriodicExportingMetricReader(
            points, self._interval_s * 1000, cardinality_limits={ObservableGauge: size + 1}
        )
        self._metrics = MeterProvider([reader], resource=_RESOURCE)
        meter = self._metrics.get_meter("alternative")
        for key, (metric, _) in _GAUGES.items():
            meter.create_observable_gauge(metric, callbacks=[self._observe(key)], unit=names.METRIC_UNITS[metric])

    def run(self) -> None:
        """Read until killed, open loop: a reading begins when it is due."""
        phases = sorted((random.random() * self._interval_s, index) for index in range(len(self._urls)))
        # A reading takes a second of a thread.
        with ThreadPoolExecutor(16 + round(1.5 * len(self._urls) / self._interval_s)) as pool:
            begin = time.monotonic()
            while True:
                for phase_s, index in phases:
                    time.sleep(max(0.0, begin + phase_s - time.monotonic()))
                    pool.submit(self._read, index)
                begin += self._interval_s

    def _read(self, index: int) -> None:
        start_ns = time.time_ns()
        try:
            answer = self._session.get(self._urls[index], timeout=_TIMEOUT_S)
            answer.raise_for_status()
            numbers = answer.json()
        except (requests.RequestException, ValueError):
            return
        sandbox = self._sandboxes[index]
        self._last[index] = numbers
        parent = SpanContext(
            int(sandbox["trace_id"], 16),
            int(sandbox["parent_span_id"], 16),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        attributes = {
            **sandbox["keys"],
            names.NEMO_GYM_SANDBOX_RESOURCE_STATUS: "ok",
            names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE: names.ResourceSource.OPENSANDBOX_EXECD.value,
            names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS: numbers["timestamp"],
            **{attribute: float(numbers[key]) for key, (_, attribute) in _GAUGES.items()},
        }
        span = self._tracer.start_span(
            names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
            context=set_span_in_context(NonRecordingSpan(parent)),
            attributes=attributes,
            start_time=start_ns,
        )
        span.end()

    def _observe(self, key: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for sandbox, numbers in zip(self._sandboxes, self._last, strict=True):
                if numbers is not None:
                    yield Observation(numbers[key], sandbox["keys"])

        return observe


def main() -> None:
    """Read until killed."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    Alternative(json.load(sys.stdin)).run()


if __name__ == "__main__":
    main()
