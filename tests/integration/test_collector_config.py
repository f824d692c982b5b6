"""The shipped base configuration in a real Collector: who gets which spans and points, and with which keys."""

from collections import Counter
from dataclasses import dataclass

import pytest

from sandgauge_demo.collector import RunningCollector
from sandgauge_schemas.names import (
    METRIC_GYM_SANDBOX_CPU_COUNT,
    NEMO_GYM_ROLLOUT_ID,
    NEMO_GYM_SANDBOX_ID,
    NEMO_RUN_ID,
    SANDGAUGE_POLLER_SERVICE_NAME,
    SERVICE_NAME,
    SPAN_GYM_ROLLOUT,
    SPAN_GYM_SANDBOX_EXEC,
    SPAN_GYM_SANDBOX_REQUEST,
    SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    SPAN_GYM_SANDBOX_START,
    SPAN_GYM_SANDBOX_STOP,
)
from support.otlp_json import GYM_CASES, START_NS, captured, from_resource, gauge, metrics, point, span, traces
from support.otlp_proto import plain_attributes
from support.otlp_sink import OtlpSink
from support.real_collector import collector, complaints, send

pytestmark = pytest.mark.integration

LIFECYCLE = (SPAN_GYM_SANDBOX_REQUEST, SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP, SPAN_GYM_ROLLOUT)
GYM = {SERVICE_NAME: "nemo-gym/swe_agent", NEMO_RUN_ID: "run-1"}
BOTH_KEYS = {NEMO_RUN_ID: "run-1", NEMO_GYM_ROLLOUT_ID: "7-0"}


def span_ids(spans):
    return {one.span_id for one in spans}


def sent_names(*requests):
    scopes = [scope for request in requests for one in request["resourceSpans"] for scope in one["scopeSpans"]]
    return Counter(one["name"] for scope in scopes for one in scope["spans"])


@dataclass(frozen=True)
class Pipeline:
    collector: RunningCollector
    poller: OtlpSink
    store: OtlpSink
    metrics: OtlpSink

    def send(self, *requests):
        assert [send(self.collector, request) for request in requests] == [200] * len(requests)

    def feed(self):
        """Return the spans of the feed, all that were sent before this call: the feed keeps the order."""
        last = span(SPAN_GYM_SANDBOX_START)
        self.send(traces(from_resource({SERVICE_NAME: "last"}, last)))
        self.poller.wait_for(lambda sink: last["spanId"] in span_ids(sink.spans()))
        return [one for one in self.poller.spans() if one.span_id != last["spanId"]]

    def stored(self, count):
        """Return the spans of the traces backend once there are as many as were sent."""
        self.store.wait_for(lambda sink: len(sink.spans()) >= count)
        return self.store.spans()


@pytest.fixture
def pipeline(tmp_path):
    with (
        OtlpSink() as poller,
        OtlpSink() as store,
        OtlpSink() as points,
        collector(tmp_path, poller=poller.endpoint, traces=store.endpoint, metrics=points.endpoint) as running,
    ):
        yield Pipeline(running, poller, store, points)


def test_starts_and_works_without_a_warning(pipeline):
    pipeline.send(captured("rollout"), captured("opensandbox.metrics"))
    pipeline.feed()
    pipeline.stored(14)
    pipeline.metrics.wait_for(lambda sink: sink.requests() != [])
    assert complaints(pipeline.collector) == []


def test_of_captured_gym_runs_the_poller_gets_the_lifecycle_and_the_backend_everything(pipeline):
    runs = [captured(case) for case in GYM_CASES]
    pipeline.send(*runs)
    sent = sent_names(*runs)
    assert sent[SPAN_GYM_SANDBOX_EXEC] > 0
    feed = Counter(one.name for one in pipeline.feed())
    assert feed == Counter({name: sent[name] for name in LIFECYCLE if sent[name]})
    assert Counter(one.name for one in pipeline.stored(sent.total() + 1)) == sent + Counter([SPAN_GYM_SANDBOX_START])


def test_other_names_do_not_reach_the_poller(pipeline):
    others = [f"{name}{end}" for name in LIFECYCLE for end in ("s", ".retry", " ")]
    others += [f"x{name}" for name in LIFECYCLE] + [name.upper() for name in LIFECYCLE]
    others += [SPAN_GYM_SANDBOX_EXEC, "gym.sandbox", "gym.sandbox.", "gym.verify", "HTTP POST", ""]
    others += [
        SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
        SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
        SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    ]
    pipeline.send(traces(from_resource(GYM, *map(span, (*others, *LIFECYCLE)))))
    assert [one.name for one in pipeline.feed()] == list(LIFECYCLE)


def test_the_poller_never_gets_its_own_spans(pipeline):
    pipeline.send(traces(from_resource({SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME}, *map(span, LIFECYCLE))))
    assert pipeline.feed() == []
    assert len(pipeline.stored(len(LIFECYCLE) + 1)) == len(LIFECYCLE) + 1


@pytest.mark.parametrize("service", ["sandgauge-poller-2", "my-sandgauge-poller", "SANDGAUGE-POLLER", ""])
def test_services_of_a_similar_name_are_no_loop(pipeline, service):
    pipeline.send(traces(from_resource({SERVICE_NAME: service}, span(SPAN_GYM_SANDBOX_START))))
    assert [one.resource[SERVICE_NAME] for one in pipeline.feed()] == [service]


def test_a_sender_without_a_service_name_is_no_loop(pipeline):
    pipeline.send(traces(from_resource({}, span(SPAN_GYM_SANDBOX_START))))
    assert len(pipeline.feed()) == 1


KEYS = pytest.mark.parametrize(
    ("on_resource", "on_record", "expected"),
    [
        (BOTH_KEYS, {}, BOTH_KEYS),
        ({NEMO_RUN_ID: "run-1"}, {NEMO_GYM_ROLLOUT_ID: "7-0"}, BOTH_KEYS),
        (BOTH_KEYS, {NEMO_RUN_ID: "own", NEMO_GYM_ROLLOUT_ID: "0-0"}, {NEMO_RUN_ID: "own", NEMO_GYM_ROLLOUT_ID: "0-0"}),
        ({NEMO_GYM_ROLLOUT_ID: "7-0"}, {}, {NEMO_GYM_ROLLOUT_ID: "7-0"}),
        ({}, {}, {}),
    ],
    ids=["both from the resource", "one from the resource", "own ones stay", "no run id", "neither"],
)


@KEYS
def test_spans_of_the_feed_get_the_keys_they_lack(pipeline, on_resource, on_record, expected):
    own = {NEMO_GYM_SANDBOX_ID: "sandbox-1"}
    pipeline.send(traces(from_resource(on_resource, span(SPAN_GYM_SANDBOX_START, {**own, **on_record}))))
    (one,) = pipeline.feed()
    assert one.attributes == {**own, **expected}


@KEYS
def test_data_points_get_the_keys_they_lack(pipeline, on_resource, on_record, expected):
    own = {NEMO_GYM_SANDBOX_ID: "sandbox-1"}
    closing = START_NS + 10**9 + 1
    sent = gauge(
        METRIC_GYM_SANDBOX_CPU_COUNT,
        point(0.1, {**own, **on_record}, time_ns=START_NS + 1),
        point(None, {**own, **on_record}, time_ns=closing),
        unit="{cpu}",
    )
    pipeline.send(metrics(on_resource, sent))
    pipeline.metrics.wait_for(lambda sink: len(sink.points()) == 2)
    assert [(one.name, one.unit, one.value, one.time_ns, one.attributes) for one in pipeline.metrics.points()] == [
        (METRIC_GYM_SANDBOX_CPU_COUNT, "{cpu}", value, time_ns, {**own, **expected})
        for value, time_ns in ((0.1, START_NS + 1), (None, closing))
    ]


def test_metrics_of_stock_gym_get_the_run_id_on_every_point(pipeline):
    pipeline.send(captured("opensandbox.metrics"))
    pipeline.metrics.wait_for(lambda sink: sink.requests() != [])
    (request,) = pipeline.metrics.requests()
    found = [item for one in request.message.resource_metrics for scope in one.scope_metrics for item in scope.metrics]
    points = [one for item in found for one in (*item.histogram.data_points, *item.sum.data_points)]
    assert {item.WhichOneof("data") for item in found} == {"histogram", "sum"}
    assert [plain_attributes(one.attributes)[NEMO_RUN_ID] for one in points] == ["run-abc123"] * len(points)


def test_the_traces_backend_gets_spans_as_they_were_sent(pipeline):
    pipeline.send(traces(from_resource(BOTH_KEYS, span(SPAN_GYM_SANDBOX_START, {NEMO_GYM_SANDBOX_ID: "sandbox-1"}))))
    (one,) = pipeline.stored(1)
    assert (one.resource, one.attributes, one.scope) == (BOTH_KEYS, {NEMO_GYM_SANDBOX_ID: "sandbox-1"}, "tests")
