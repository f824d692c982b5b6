"""Whether OTLP messages keep the telemetry contract, judged by the registry itself and not by what is derived from it.

Records of Sandgauge are held to everything: the names that their span or metric may carry, types, values, what must
be there and what must not. Spans of stock Gym and of the Collector's joined file are held to the types of registered
names. What neither Sandgauge nor the registry knows is not judged.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.otlp_proto import plain_attributes, plain_value
from telemetry_registry import Attribute, MetricGroup, Registry, Usage, load_registry

_TYPES_ONLY_SCOPES = ("nemo.lens.helpers", "sandgauge.joined")
_TYPES = {"string_value": "string", "int_value": "int", "double_value": "double", "bool_value": "boolean"}
_DATA = {"gauge": "gauge", "counter": "sum", "updowncounter": "sum", "histogram": "histogram"}


def assert_conforms(request: ExportTraceServiceRequest | ExportMetricsServiceRequest) -> None:
    """Fail with every violation of a request of either signal, one on a line."""
    if isinstance(request, ExportTraceServiceRequest):
        violations = trace_violations(request)
    else:
        violations = metrics_violations(request)
    assert not violations, "\n".join(violations)


def trace_violations(request: ExportTraceServiceRequest) -> list[str]:
    """Return what the spans of a request break, each as `<span name>: <key>: <what>`."""
    found: list[str] = []
    for resource_spans in request.resource_spans:
        found += _resource_violations(resource_spans.resource, readings=True)
        by_poller = _is_poller(resource_spans.resource)
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                ours = by_poller or _is_sandgauge(scope_spans.scope.name) or span.name in _registry().spans
                if scope_spans.scope.name in _TYPES_ONLY_SCOPES:
                    problems = _type_violations(span.attributes)
                elif ours:
                    problems = _span_violations(span)
                else:
                    continue
                found += [f"{span.name}: {problem}" for problem in problems]
    return found


def metrics_violations(request: ExportMetricsServiceRequest) -> list[str]:
    """Return what the metrics of a request break, each as `<metric name>: <key>: <what>`."""
    found: list[str] = []
    for resource_metrics in request.resource_metrics:
        by_poller = _is_poller(resource_metrics.resource)
        names = {metric.name for scope in resource_metrics.scope_metrics for metric in scope.metrics}
        readings = any(not name.startswith("sandgauge.") for name in names & _registry().metrics.keys())
        found += _resource_violations(resource_metrics.resource, readings=readings)
        for scope_metrics in resource_metrics.scope_metrics:
            scope = scope_metrics.scope.name
            ours = _is_sandgauge(scope) or (by_poller and not scope.startswith("opentelemetry."))
            for metric in scope_metrics.metrics:
                group = _registry().metrics.get(metric.name)
                if group is not None:
                    found += [f"{metric.name}: {problem}" for problem in _metric_violations(metric, group)]
                elif ours:
                    found.append(f"{metric.name}: not a registered metric")
    return found


@cache
def _registry() -> Registry:
    return load_registry()


def _is_sandgauge(scope: str) -> bool:
    return scope.startswith("sandgauge")


def _is_poller(resource: Resource) -> bool:
    service = plain_attributes(resource.attributes).get("service.name")
    return service == _registry().service_names["sandgauge.poller"]


def _resource_violations(resource: Resource, *, readings: bool) -> Iterator[str]:
    """Yield what a resource breaks; that of another service is held to the types alone."""
    yield from (f"resource: {problem}" for problem in _type_violations(resource.attributes))
    if not _is_poller(resource):
        return
    present = plain_attributes(resource.attributes)
    for usage in _registry().entities["sandgauge.poller"]:
        if usage.required and usage.attribute.name not in present:
            yield f"resource: {usage.attribute.name}: required and missing"
    if readings and "service.instance.id" in present:
        yield "resource: service.instance.id: readings carry none"


def _type_violations(attributes: Sequence[KeyValue]) -> Iterator[str]:
    for item in attributes:
        attribute = _registry().attributes.get(item.key)
        if attribute is not None and not attribute.suffixes:
            yield from _value_violations(item, attribute.type, None)


def _span_violations(span: Span) -> Iterator[str]:
    group = _registry().spans.get(span.name)
    if group is None:
        yield "not a registered span"
        return
    if Span.SpanKind.Name(span.kind) != f"SPAN_KIND_{group.kind.upper()}":
        yield f"kind is not {group.kind}"
    if not span.start_time_unix_nano or span.end_time_unix_nano < span.start_time_unix_nano:
        yield "its end lies before its start, or it has none"
    if len(span.trace_id) != 16 or len(span.span_id) != 8:
        yield "trace id or span id has a wrong length"
    yield from _attribute_violations(span.attributes, group.usages)
    present = plain_attributes(span.attributes).keys()
    for together in group.whole_or_absent:
        if present & set(together) and not present >= set(together):
            yield f"{', '.join(together)}: only some of them"


def _metric_violations(metric: Metric, group: MetricGroup) -> Iterator[str]:
    if metric.unit != group.unit:
        yield f"unit is {metric.unit!r}, registered is {group.unit!r}"
    kind = metric.WhichOneof("data")
    if kind != _DATA[group.instrument]:
        yield f"is a {kind}, registered is {group.instrument}"
        return
    data = getattr(metric, kind)
    if kind == "sum" and data.is_monotonic != (group.instrument == "counter"):
        yield f"is_monotonic is {data.is_monotonic}, registered is {group.instrument}"
    if kind != "gauge" and data.aggregation_temporality != AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE:
        yield "temporality is not cumulative"
    for point in data.data_points:
        yield from _point_violations(point)
        yield from _attribute_violations(point.attributes, group.usages)


def _point_violations(point: NumberDataPoint | HistogramDataPoint) -> Iterator[str]:
    if not point.time_unix_nano:
        yield "a point has no time"
    if isinstance(point, HistogramDataPoint):
        return
    is_closing = bool(point.flags & DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
    if is_closing == (point.WhichOneof("value") is not None):
        yield "a point has a value and the flag of none, or neither"
    if not math.isfinite(point.as_double):
        yield "a point's value is not finite"


def _attribute_violations(attributes: Sequence[KeyValue], usages: Sequence[Usage]) -> Iterator[str]:
    allowed = {usage.attribute.name: usage for usage in usages}
    values = plain_attributes(attributes)
    for key, times in Counter(item.key for item in attributes).items():
        if times > 1:
            yield f"{key}: given {times} times"
    seen: set[str] = set()
    for item in attributes:
        usage = allowed.get(item.key) or _indexed(item.key, usages)
        if usage is None:
            yield f"{item.key}: not registered here"
            continue
        seen.add(usage.attribute.name)
        yield from _value_violations(item, _type_of(item.key, usage.attribute), usage.values)
    for usage in usages:
        yield from _presence_violations(usage, present=usage.attribute.name in seen, values=values)


def _presence_violations(usage: Usage, *, present: bool, values: Mapping[str, object]) -> Iterator[str]:
    name = usage.attribute.name
    if not present and usage.required:
        yield f"{name}: required and missing"
    for key, wanted in usage.required_when.items():
        if not present and values.get(key) in wanted:
            yield f"{name}: missing although {key} is {values[key]}"
    for key, wanted in usage.only_when.items():
        if present and values.get(key) not in wanted:
            yield f"{name}: present although {key} is {values.get(key)}"


def _indexed(key: str, usages: Sequence[Usage]) -> Usage | None:
    """Return the usage whose prefix, an index and one of whose suffixes make up the key."""
    for usage in usages:
        prefix = f"{usage.attribute.name}."
        index, _, suffix = key.removeprefix(prefix).partition(".")
        is_index = index.isdecimal() and str(int(index)) == index
        if key.startswith(prefix) and is_index and suffix in usage.attribute.suffixes:
            return usage
    return None


def _type_of(key: str, attribute: Attribute) -> str:
    if not attribute.suffixes:
        return attribute.type
    return attribute.suffixes[key.removeprefix(f"{attribute.name}.").partition(".")[2]]


def _value_violations(item: KeyValue, registered: str, values: Sequence[str] | None) -> Iterator[str]:
    found = _value_type(item.value)
    if found != registered:
        yield f"{item.key}: is {found}, registered is {registered}"
        return
    value = plain_value(item.value)
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{item.key}: not finite"
    for one in value if isinstance(value, list) else [value]:
        if values is not None and one not in values:
            yield f"{item.key}: {one!r} is not one of its values"


def _value_type(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        types = {_value_type(element) for element in value.array_value.values}
        return f"{types.pop() if len(types) == 1 else 'mixed'}[]"
    return _TYPES.get(kind or "", kind or "empty")
