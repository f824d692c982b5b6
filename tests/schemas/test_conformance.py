import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, NumberDataPoint
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.conformance import assert_conforms, metrics_violations, trace_violations
from support.otlp_json import GYM_CASES, captured

SANDBOX = "nemo.gym.sandbox."
POLLER = {"service.name": "sandgauge-poller", "service.version": "1"}
JOINED = {
    "nemo.run.id": "run-1",
    "nemo.gym.rollout.id": "7-0",
    f"{SANDBOX}id": "s-1",
    f"{SANDBOX}provider": "opensandbox",
}
ALLOCATION = JOINED | {
    f"{SANDBOX}resource.status": "ok",
    f"{SANDBOX}resource.source": "opensandbox.inspect/kubernetes",
    f"{SANDBOX}allocation.component_count": 2,
    f"{SANDBOX}allocation.component.0.name": "sandbox",
    f"{SANDBOX}allocation.component.0.limits.cpu": 0.5,
    f"{SANDBOX}allocation.component.1.name": "egress",
    f"{SANDBOX}allocation.component.1.requests.memory_mib": 1.5,
    f"{SANDBOX}allocation.component.1.requests.gpu": 2,
    f"{SANDBOX}allocation.note": ["resize_pending", "resize_infeasible"],
    f"{SANDBOX}allocation.host.kind": "kubernetes-node",
    f"{SANDBOX}allocation.host.scope": "http://osb.example",
    f"{SANDBOX}allocation.host.id": "node-1",
}
SAMPLE = JOINED | {
    f"{SANDBOX}resource.status": "ok",
    f"{SANDBOX}resource.source": "opensandbox.execd",
    f"{SANDBOX}sample.timestamp_ms": 1_795_962_400_000,
    f"{SANDBOX}sample.cpu_count": 2.0,
    f"{SANDBOX}sample.final": True,
}
FAILED = JOINED | {
    f"{SANDBOX}resource.status": "unavailable",
    f"{SANDBOX}resource.source": "opensandbox.execd",
    "error.type": "timeout",
}
SUMMARY = JOINED | {
    f"{SANDBOX}end.reason": "stopped",
    f"{SANDBOX}leaked": False,
    f"{SANDBOX}readings.count": 3,
    f"{SANDBOX}readings.missed": 0,
    f"{SANDBOX}summary.memory_used_mib.max": 41.5,
    f"{SANDBOX}requested.sidecar.0.memory_mib": 256,
}
SERIES = JOINED | {f"{SANDBOX}sample.scope": "node"}


def any_value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=map(any_value, value)))
        case None:
            return AnyValue()
    return AnyValue(string_value=value)


def key_values(attributes: dict[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def traces(
    name: str, attributes: dict[str, Any], *, resource: dict[str, Any] = POLLER, scope: str = "sandgauge_poller"
) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add(resource=Resource(attributes=key_values(resource)))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = scope
    scope_spans.spans.append(
        Span(
            name=name,
            kind=Span.SPAN_KIND_INTERNAL,
            trace_id=bytes(15) + b"\1",
            span_id=bytes(7) + b"\1",
            start_time_unix_nano=1,
            end_time_unix_nano=2,
            attributes=key_values(attributes),
        )
    )
    return request


def metrics(
    *items: Metric, resource: dict[str, Any] = POLLER, scope: str = "sandgauge_poller"
) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    resource_metrics = request.resource_metrics.add(resource=Resource(attributes=key_values(resource)))
    scope_metrics = resource_metrics.scope_metrics.add(metrics=items)
    scope_metrics.scope.name = scope
    return request


def gauge(attributes: dict[str, Any] = SERIES, value: float | None = 2.0, flags: int = 0) -> Metric:
    metric = Metric(name="gym.sandbox.cpu_count", unit="{cpu}")
    point = NumberDataPoint(time_unix_nano=1, attributes=key_values(attributes), as_double=value, flags=flags)
    metric.gauge.data_points.append(point)
    return metric


def counter(name: str = "gym.sandbox.cpu_time", unit: str = "s", attributes: dict[str, Any] = SERIES) -> Metric:
    metric = Metric(name=name, unit=unit)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    metric.sum.data_points.add(time_unix_nano=1, as_double=1.0, attributes=key_values(attributes))
    return metric


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("gym.sandbox.resource.allocation", ALLOCATION),
        ("gym.sandbox.resource.sample", SAMPLE),
        ("gym.sandbox.resource.sample", FAILED),
        ("gym.sandbox.resource.summary", SUMMARY),
    ],
)
def test_records_that_keep_the_contract(name: str, attributes: dict[str, Any]) -> None:
    assert_conforms(traces(name, attributes))


@pytest.mark.parametrize(
    ("name", "base", "planted", "violation"),
    [
        ("sample", SAMPLE, {f"{SANDBOX}sample.mood": 1}, "sample.mood: not registered here"),
        ("sample", SAMPLE, {f"{SANDBOX}end.reason": "gone"}, "end.reason: not registered here"),
        ("sample", SAMPLE, {f"{SANDBOX}sample.cpu_count": 2}, "sample.cpu_count: is int, registered is double"),
        ("sample", SAMPLE, {f"{SANDBOX}sample.final": "yes"}, "sample.final: is string, registered is boolean"),
        ("sample", SAMPLE, {f"{SANDBOX}sample.timestamp_ms": None}, "timestamp_ms: is empty, registered is int"),
        ("sample", SAMPLE, {f"{SANDBOX}sample.cpu_count": math.nan}, "sample.cpu_count: not finite"),
        ("sample", FAILED, {f"{SANDBOX}resource.source": "opensandbox.inspect"}, "is not one of its values"),
        ("sample", SAMPLE, {f"{SANDBOX}sample.cpu_scope": "pod"}, "cpu_scope: 'pod' is not one of its values"),
        ("sample", SAMPLE, {f"{SANDBOX}sample.oom_kills": 1}, "oom_kills: present although"),
        ("sample", SAMPLE, {"error.type": "timeout"}, "error.type: present although"),
        ("sample", FAILED, {"error.type": "unlucky"}, "error.type: 'unlucky' is not one of its values"),
        ("sample", FAILED, {f"{SANDBOX}sample.cpu_count": 2.0}, "sample.cpu_count: present although"),
        ("allocation", ALLOCATION, {f"{SANDBOX}allocation.component.0.limits.ram": 1.0}, "limits.ram: not registered"),
        ("allocation", ALLOCATION, {f"{SANDBOX}allocation.component.01.name": "a"}, "01.name: not registered"),
        ("allocation", ALLOCATION, {f"{SANDBOX}allocation.component.egress.name": "a"}, "egress.name: not registered"),
        ("allocation", ALLOCATION, {f"{SANDBOX}allocation.component.0.limits.cpu": 1}, "is int, registered is double"),
        ("allocation", ALLOCATION, {f"{SANDBOX}allocation.note": ["rounded", "rough"]}, "'rough' is not one of its"),
        ("allocation", ALLOCATION, {f"{SANDBOX}allocation.note": "rounded"}, "is string, registered is string[]"),
        ("allocation", ALLOCATION, {f"{SANDBOX}allocation.designator.kind": "ecs-task"}, "only some of them"),
        ("allocation", ALLOCATION, {f"{SANDBOX}requested.cpu": 1.0}, "requested.cpu: not registered here"),
        ("summary", SUMMARY, {f"{SANDBOX}requested.memory_mib": 1.5}, "is double, registered is int"),
        ("summary", SUMMARY, {f"{SANDBOX}summary.usage_source": "opensandbox.execd"}, "is not one of its values"),
    ],
)
def test_a_planted_fault_is_the_one_violation(
    name: str, base: dict[str, Any], planted: dict[str, Any], violation: str
) -> None:
    [found] = trace_violations(traces(f"gym.sandbox.resource.{name}", base | planted))
    assert violation in found


@pytest.mark.parametrize(
    ("name", "base", "missing"),
    [
        ("sample", SAMPLE, f"{SANDBOX}id"),
        ("sample", FAILED, "error.type"),
        ("allocation", ALLOCATION, f"{SANDBOX}allocation.component_count"),
        ("summary", SUMMARY, f"{SANDBOX}leaked"),
    ],
)
def test_what_must_be_there_is_missed(name: str, base: dict[str, Any], missing: str) -> None:
    attributes = {key: value for key, value in base.items() if key != missing}
    [found] = trace_violations(traces(f"gym.sandbox.resource.{name}", attributes))
    assert f"{missing}: " in found
    assert "missing" in found


def test_a_missing_status_is_named_beside_what_depends_on_it() -> None:
    attributes = {key: value for key, value in SAMPLE.items() if key != f"{SANDBOX}resource.status"}
    assert f"gym.sandbox.resource.sample: {SANDBOX}resource.status: required and missing" in trace_violations(
        traces("gym.sandbox.resource.sample", attributes)
    )


@pytest.mark.parametrize(
    ("change", "violation"),
    [
        (lambda span: setattr(span, "kind", Span.SPAN_KIND_CLIENT), "kind is not internal"),
        (lambda span: setattr(span, "start_time_unix_nano", 3), "its end lies before its start"),
        (lambda span: setattr(span, "span_id", b"\1"), "wrong length"),
        (lambda span: span.attributes.extend(key_values({"nemo.run.id": "run-2"})), "nemo.run.id: given 2 times"),
    ],
)
def test_a_malformed_span_is_a_violation(change: Callable[[Span], None], violation: str) -> None:
    request = traces("gym.sandbox.resource.sample", SAMPLE)
    change(request.resource_spans[0].scope_spans[0].spans[0])
    [found] = trace_violations(request)
    assert violation in found


@pytest.mark.parametrize("scope", ["sandgauge_poller", "sandgauge_emitter"])
def test_sandgauge_sends_no_unregistered_span(scope: str) -> None:
    request = traces("gym.sandbox.nap", {}, resource={"service.name": "anyone"}, scope=scope)
    assert trace_violations(request) == ["gym.sandbox.nap: not a registered span"]


def test_a_registered_name_is_held_to_the_contract_whoever_sends_it() -> None:
    request = traces("gym.sandbox.request", JOINED, resource={"service.name": "anyone"}, scope="theirs")
    assert any("requested.count: required and missing" in violation for violation in trace_violations(request))


def test_spans_of_others_are_not_judged() -> None:
    foreign = traces("GET /", {f"{SANDBOX}sample.mood": 1}, resource={"service.name": "anyone"}, scope="theirs")
    assert_conforms(foreign)


@pytest.mark.parametrize("scope", ["nemo.lens.helpers", "sandgauge.joined"])
def test_stock_and_joined_spans_are_held_to_registered_types_alone(scope: str) -> None:
    loose = traces("gym.sandbox.start", {"anything": 1, "otel.trace_id": "0"}, resource={}, scope=scope)
    assert_conforms(loose)
    wrong = traces("gym.sandbox.start", {f"{SANDBOX}id": 1}, resource={}, scope=scope)
    assert trace_violations(wrong) == [f"gym.sandbox.start: {SANDBOX}id: is int, registered is string"]


@pytest.mark.parametrize("case", GYM_CASES)
def test_what_stock_gym_really_sends_passes(case: str) -> None:
    request = json_format.Parse(json.dumps(captured(case)), ExportTraceServiceRequest(), ignore_unknown_fields=True)
    assert request.resource_spans
    assert_conforms(request)


def test_the_pollers_resource() -> None:
    nameless = traces("gym.sandbox.resource.sample", SAMPLE, resource={"service.name": "sandgauge-poller"})
    assert trace_violations(nameless) == ["resource: service.version: required and missing"]
    split = POLLER | {"service.instance.id": "shard-0"}
    assert trace_violations(traces("gym.sandbox.resource.sample", SAMPLE, resource=split)) == [
        "resource: service.instance.id: readings carry none"
    ]
    assert metrics_violations(metrics(gauge(), resource=split)) == [
        "resource: service.instance.id: readings carry none"
    ]
    of_itself = counter("sandgauge.poller.points.left_out", "{point}", {"reason": "age"})
    assert_conforms(metrics(of_itself, resource=split))


def test_metrics_that_keep_the_contract() -> None:
    closing = gauge(value=None, flags=1)
    assert_conforms(metrics(gauge(), closing, counter()))


def changed(metric: Metric, change: Callable[[Metric], object]) -> Metric:
    change(metric)
    return metric


@pytest.mark.parametrize(
    ("metric", "violation"),
    [
        (changed(gauge(), lambda metric: setattr(metric, "unit", "1")), "unit is '1', registered is '{cpu}'"),
        (changed(gauge(), lambda metric: setattr(metric, "name", "gym.sandbox.naps")), "not a registered metric"),
        (counter("gym.sandbox.cpu_count", "{cpu}"), "is a sum, registered is gauge"),
        (changed(counter(), lambda metric: setattr(metric.sum, "is_monotonic", False)), "is_monotonic is False"),
        (
            counter("sandgauge.poller.leaks", "{sandbox}", {"deployment": "a"}),
            "is_monotonic is True, registered is updowncounter",
        ),
        (
            changed(counter(), lambda metric: setattr(metric.sum, "aggregation_temporality", 1)),
            "temporality is not cumulative",
        ),
        (gauge(SERIES | {"host.name": "a"}), "host.name: not registered here"),
        (gauge(JOINED), "sample.scope: required and missing"),
        (gauge(SERIES | {f"{SANDBOX}sample.scope": "pod"}), "'pod' is not one of its values"),
        (gauge(value=math.inf), "a point's value is not finite"),
        (gauge(value=0.0, flags=1), "a point has a value and the flag of none"),
        (gauge(value=None), "or neither"),
        (changed(gauge(), lambda metric: setattr(metric.gauge.data_points[0], "time_unix_nano", 0)), "has no time"),
        (
            counter("sandgauge.poller.reads", "{read}", {"deployment": "a", "kind": "sample", "outcome": "fine"}),
            "outcome: 'fine' is not one of its values",
        ),
        (
            counter("sandgauge.poller.spans", "{span}", {"outcome": "ignored"}),
            "reason: missing although outcome is ignored",
        ),
        (
            counter("sandgauge.poller.spans", "{span}", {"outcome": "rejected", "reason": "odd"}),
            "reason: 'odd' is not one of its values",
        ),
    ],
)
def test_a_planted_fault_of_a_metric_is_the_one_violation(metric: Metric, violation: str) -> None:
    [found] = metrics_violations(metrics(metric))
    assert violation in found


def test_metrics_of_the_sdk_and_of_others_are_not_judged() -> None:
    unknown = Metric(name="otel.sdk.span.live", unit="1")
    assert_conforms(metrics(unknown, scope="opentelemetry.sdk"))
    assert_conforms(metrics(unknown, resource={"service.name": "anyone"}, scope="theirs"))


def test_assert_conforms_names_every_violation() -> None:
    with pytest.raises(AssertionError, match=r"(?s)a: not registered here.*b: not registered here"):
        assert_conforms(traces("gym.sandbox.resource.sample", SAMPLE | {"a": 1, "b": 2}))
