"""The fleet overlay, in a real Collector: what is counted, under which labels, and that none of these is an id."""

from contextlib import contextmanager

import pytest

from sandgauge_schemas.names import (
    ERROR_TYPE,
    NEMO_GYM_ROLLOUT_ID,
    NEMO_GYM_SANDBOX_ID,
    NEMO_GYM_SANDBOX_PROVIDER,
    NEMO_GYM_SANDBOX_REQUEST_ID,
    NEMO_GYM_SANDBOX_RESOURCE_STATUS,
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
    ErrorType,
    ResourceStatus,
)
from support.otlp_json import from_resource, span, traces
from support.otlp_proto import plain_attributes
from support.otlp_sink import OtlpSink
from support.real_collector import FLEET, collector, send

pytestmark = pytest.mark.integration

CALLS, DURATION = "gym.sandbox.spans.calls", "gym.sandbox.spans.duration"
SPAN_NAME, STATUS_CODE = "span.name", "status.code"
UNSET, ERROR = "STATUS_CODE_UNSET", "STATUS_CODE_ERROR"
GYM = {SERVICE_NAME: "nemo-gym/swe_agent"}
POLLER = {SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME}
CREATED = {NEMO_GYM_SANDBOX_ID: "sandbox-1"}


def failed(one):
    return {**one, "status": {"code": 2}}


def lasting(one, seconds):
    return {**one, "endTimeUnixNano": str(int(one["startTimeUnixNano"]) + int(seconds * 10**9))}


@contextmanager
def counting(directory, *resources, calls):
    """Send one request through the overlay; give the metrics once that many spans are counted."""
    with (
        OtlpSink() as metrics,
        collector(directory, FLEET, metrics=metrics.endpoint, settings={"FLEET_FLUSH_INTERVAL": "100ms"}) as running,
    ):
        assert send(running, traces(*resources)) == 200
        metrics.wait_for(lambda sink: sum(latest(sink.points(CALLS)).values()) == calls)
        yield metrics


def latest(points):
    """Return the newest value of each series, by its labels without the service."""
    return {
        tuple(sorted((key, value) for key, value in point.attributes.items() if key != SERVICE_NAME)): point.value
        for point in points
    }


def series(**labels):
    named = {key: value for key, value in labels.items() if value is not None}
    keys = {"name": SPAN_NAME, "status": STATUS_CODE, "provider": NEMO_GYM_SANDBOX_PROVIDER}
    others = {"reading": NEMO_GYM_SANDBOX_RESOURCE_STATUS, "error": ERROR_TYPE}
    return tuple(sorted(((keys | others)[key], str(value)) for key, value in named.items()))


def test_requests_by_provider_failed_starts_and_reads_by_status(tmp_path):
    osb, other = {NEMO_GYM_SANDBOX_PROVIDER: "opensandbox"}, {NEMO_GYM_SANDBOX_PROVIDER: "docker"}
    reading = {**osb, **CREATED, NEMO_GYM_SANDBOX_RESOURCE_STATUS: ResourceStatus.OK}
    missed = {**reading, NEMO_GYM_SANDBOX_RESOURCE_STATUS: ResourceStatus.UNAVAILABLE, ERROR_TYPE: ErrorType.TIMEOUT}
    sent = [
        from_resource(
            GYM,
            *(span(SPAN_GYM_SANDBOX_REQUEST, osb) for _ in range(3)),
            *(span(SPAN_GYM_SANDBOX_REQUEST, other) for _ in range(2)),
            span(SPAN_GYM_SANDBOX_REQUEST),
            span(SPAN_GYM_SANDBOX_START, osb | CREATED),
            failed(span(SPAN_GYM_SANDBOX_START, osb | CREATED)),
            span(SPAN_GYM_SANDBOX_START, osb),
            span(SPAN_GYM_SANDBOX_STOP, osb | CREATED),
        ),
        from_resource(
            POLLER,
            span(SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, reading),
            *(span(SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, reading) for _ in range(4)),
            span(SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, missed),
        ),
    ]
    with counting(tmp_path, *sent, calls=16) as metrics:
        counted = latest(metrics.points(CALLS))
        services = {point.attributes[SERVICE_NAME] for point in metrics.points(CALLS)}
    ok, unavailable = ResourceStatus.OK, ResourceStatus.UNAVAILABLE
    assert counted == {
        series(name=SPAN_GYM_SANDBOX_REQUEST, provider="opensandbox", status=UNSET): 3,
        series(name=SPAN_GYM_SANDBOX_REQUEST, provider="docker", status=UNSET): 2,
        series(name=SPAN_GYM_SANDBOX_REQUEST, provider="unknown", status=UNSET): 1,
        series(name=SPAN_GYM_SANDBOX_START, provider="opensandbox", status=UNSET): 1,
        # One that says so, and one without a sandbox id.
        series(name=SPAN_GYM_SANDBOX_START, provider="opensandbox", status=ERROR): 2,
        series(name=SPAN_GYM_SANDBOX_STOP, provider="opensandbox", status=UNSET): 1,
        series(name=SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, provider="opensandbox", status=UNSET, reading=ok): 1,
        series(name=SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, provider="opensandbox", status=UNSET, reading=ok): 4,
        series(
            name=SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
            provider="opensandbox",
            status=UNSET,
            reading=unavailable,
            error=ErrorType.TIMEOUT,
        ): 1,
    }
    assert services == {GYM[SERVICE_NAME], SANDGAUGE_POLLER_SERVICE_NAME}


def test_start_latency_is_a_histogram_in_seconds(tmp_path):
    took = (0.05, 0.7, 0.7, 45)
    starts = [lasting(span(SPAN_GYM_SANDBOX_START, CREATED), seconds) for seconds in took]
    with counting(tmp_path, from_resource(GYM, *starts), calls=4) as metrics:
        item = histograms(metrics)[-1]
    (point,) = item.histogram.data_points
    counts = dict(zip([*point.explicit_bounds, "more"], point.bucket_counts, strict=True))
    assert item.unit == "s"
    assert point.sum == pytest.approx(sum(took))
    assert {bound: count for bound, count in counts.items() if count} == {0.1: 1, 1.0: 2, 60.0: 1}


def histograms(sink):
    return [
        item
        for request in sink.requests()
        for resource in request.message.resource_metrics
        for scope in resource.scope_metrics
        for item in scope.metrics
        if item.name == DURATION
    ]


def test_no_id_is_a_label_or_anywhere_else(tmp_path):
    ids = {
        NEMO_RUN_ID: "id-of-run",
        NEMO_GYM_ROLLOUT_ID: "id-of-rollout",
        NEMO_GYM_SANDBOX_REQUEST_ID: "id-of-request",
        NEMO_GYM_SANDBOX_ID: "id-of-sandbox",
    }
    names = [SPAN_GYM_SANDBOX_REQUEST, SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP, SPAN_GYM_SANDBOX_RESOURCE_SAMPLE]
    with_ids_in_them = [f"{name}/id-of-sandbox" for name in (*names, SPAN_GYM_SANDBOX_EXEC)]
    others = [*with_ids_in_them, SPAN_GYM_SANDBOX_EXEC, SPAN_GYM_ROLLOUT, SPAN_GYM_SANDBOX_RESOURCE_SUMMARY]
    processes = [
        {**GYM, **ids, "service.instance.id": f"id-of-process-{pid}", "process.pid": pid, "host.name": "id-of-host"}
        for pid in (1, 2)
    ]
    sent = [from_resource(one, *(span(name, ids) for name in (*names, *others))) for one in processes]
    with counting(tmp_path, *sent, calls=2 * len(names)) as metrics:
        requests = metrics.requests()
    assert not [request for request in requests if b"id-of-" in request.body]
    resources = [
        plain_attributes(one.resource.attributes) for each in requests for one in each.message.resource_metrics
    ]
    assert resources == [GYM] * len(resources)
    assert {key for labels in latest(metrics.points(CALLS)) for key, _ in labels} == {
        SPAN_NAME,
        STATUS_CODE,
        NEMO_GYM_SANDBOX_PROVIDER,
    }


def test_endless_providers_make_no_endless_series(tmp_path):
    starts = [span(SPAN_GYM_SANDBOX_START, {NEMO_GYM_SANDBOX_PROVIDER: f"p{n}"}) for n in range(1500)]
    with counting(tmp_path, from_resource(GYM, *starts), calls=1500) as metrics:
        counted = latest(metrics.points(CALLS))
    assert len(counted) == 1001
    assert counted[("otel.metric.overflow", True),] == 500
