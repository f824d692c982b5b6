"""What the poller sent comes back: through the Collector, and straight to its port, past the Collector's filter."""

import json
import time
from dataclasses import dataclass

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_demo.collector import RunningCollector
from sandgauge_schemas import names
from support.direct_session import direct_session
from support.otlp_json import from_resource, span, traces
from support.otlp_proto import plain_attributes, spans_of
from support.otlp_sink import OtlpSink
from support.real_collector import collector, send
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb, osb_in_thread

pytestmark = pytest.mark.integration

OWN = {names.SERVICE_NAME: names.SANDGAUGE_POLLER_SERVICE_NAME, names.SERVICE_VERSION: "1"}
GYM = {names.SERVICE_NAME: "nemo-gym/tests", names.NEMO_RUN_ID: "run-1"}
START, STOP = names.SPAN_GYM_SANDBOX_START, names.SPAN_GYM_SANDBOX_STOP
ALLOCATION, SAMPLE, SUMMARY = (
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
)


@dataclass(frozen=True)
class Pipeline:
    osb: SimulatedOsb
    backends: OtlpSink
    otelcol: RunningCollector
    poller: RunningPoller

    def come_back(self, request):
        """Send a request both ways; both answer only when they have taken it."""
        message = request if isinstance(request, bytes) else json.dumps(request)
        content_type = "application/x-protobuf" if isinstance(request, bytes) else "application/json"
        with direct_session() as session:
            for endpoint in (self.otelcol.endpoint, self.poller.endpoint):
                headers = {"Content-Type": content_type}
                answer = session.post(f"{endpoint}/v1/traces", data=message, headers=headers, timeout=60)
                assert answer.status_code == 200

    def span_counts(self):
        """What the poller counted of spans, by outcome and reason; each point is the sum since its start."""
        return {
            (point.attributes[names.OUTCOME], point.attributes.get(names.REASON)): point.value
            for point in self.backends.points(names.METRIC_SANDGAUGE_POLLER_SPANS)
        }


@pytest.fixture
def pipeline(tmp_path):
    with osb_in_thread() as osb, OtlpSink() as backends:
        poller = RunningPoller(tmp_path / "poller")
        with collector(
            tmp_path / "collector", poller=poller.endpoint, traces=backends.endpoint, metrics=backends.endpoint
        ) as otelcol:
            poller.configure(
                {
                    "deployments": [{"name": "training", "endpoint": osb.url}],
                    "sampling": {"collection_interval": "1s", "min_interval": "1s"},
                    "export": {"endpoint": otelcol.endpoint},
                }
            )
            with poller:
                yield Pipeline(osb, backends, otelcol, poller)


def lifecycle(name, sandbox_id, resource):
    now = time.time_ns()
    one = span(name, {names.NEMO_GYM_SANDBOX_ID: sandbox_id, names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox"})
    one |= {"startTimeUnixNano": str(now - 10**9), "endTimeUnixNano": str(now)}
    return traces(from_resource(resource, one))


def sent_by_the_poller(backends):
    """Return everything that the poller sent as traces, as one request."""
    request = ExportTraceServiceRequest()
    for received in backends.requests():
        if isinstance(received.message, ExportTraceServiceRequest):
            request.resource_spans.extend(
                group
                for group in received.message.resource_spans
                if plain_attributes(group.resource.attributes)[names.SERVICE_NAME] == OWN[names.SERVICE_NAME]
            )
    return request


def test_the_pollers_own_spans_are_never_read_as_events(pipeline):
    osb, backends = pipeline.osb, pipeline.backends
    first, second, bait = (osb.create(limits={"cpu": "1", "memory": "128Mi"}) for _ in range(3))
    send(pipeline.otelcol, lifecycle(START, first, GYM))
    backends.wait_for(lambda seen: seen.spans(SAMPLE))
    osb.delete(first)
    send(pipeline.otelcol, lifecycle(STOP, first, GYM))
    backends.wait_for(lambda seen: seen.spans(SUMMARY))
    sent = sent_by_the_poller(backends)
    records = list(spans_of(sent))
    assert {one.name for one in records} == {ALLOCATION, SAMPLE, SUMMARY}

    pipeline.come_back(sent.SerializeToString())
    pipeline.come_back(lifecycle(START, bait, OWN))
    # Spans reach the poller in their order: when this one is read, all before it have been there.
    send(pipeline.otelcol, lifecycle(START, second, GYM))
    backends.wait_for(lambda seen: any(second in one.attributes.values() for one in seen.spans(SAMPLE)))
    assert osb.requests(sandbox_id=bait) == []

    pipeline.poller.stop()
    backends.wait_for(lambda _seen: pipeline.span_counts())
    assert pipeline.span_counts() == {
        ("accepted", None): 3,
        ("ignored", "other_span"): len(records),
        ("ignored", "own_span"): 1,
    }
    assert not backends.violations
