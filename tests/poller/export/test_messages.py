"""Records to OTLP bytes: golden payloads, the SDK's own messages as the measure, and ids that never change."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import export as sdk_metrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from sandgauge_poller.export.messages import (
    TELEMETRY_SCOPE,
    MetricPoint,
    encode_points,
    export_request,
    identity,
    span_id,
)
from sandgauge_schemas import names
from sandgauge_schemas.version import __version__
from support.otlp_proto import encoded_span, plain_attributes, points_of, spans_of

FIXTURES = Path(__file__).parents[2] / "fixtures" / "otlp_messages"
RESOURCE = {names.SERVICE_NAME: names.SANDGAUGE_POLLER_SERVICE_NAME, names.SERVICE_VERSION: __version__}
SCOPE = InstrumentationScope(TELEMETRY_SCOPE, __version__)
PARTS = ("deployment", "sandbox_id", "span_name", "source")
IDENTITY = {
    "trace_id": bytes(range(16)),
    "deployment": "training",
    "sandbox_id": "sb-1",
    "span_name": names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    "source": names.ResourceSource.OPENSANDBOX_EXECD,
    "start_ns": 1_767_225_600_000_000_000,
}


def read_json(case, file):
    return json.loads((FIXTURES / case / file).read_text(encoding="utf-8"))


def golden_span():
    fields = read_json("sample_span", "input.json")
    return fields | {key: bytes.fromhex(fields[key]) for key in ("trace_id", "parent_span_id", "span_id")}


def golden_points():
    return [MetricPoint(**point) for point in read_json("closing_gauges", "input.json")]


def test_span_bytes_are_golden():
    assert encoded_span(**golden_span()).hex() == read_json("sample_span", "expected.json")["payload"]


def test_gauge_bytes_are_golden():
    assert encode_points(golden_points()).hex() == read_json("closing_gauges", "expected.json")["payload"]


@pytest.mark.parametrize("error", [True, False])
def test_span_equals_what_the_sdk_says(error):
    fields = golden_span() | {"error": error}
    trace_id = int.from_bytes(fields["trace_id"], "big")
    span = ReadableSpan(
        name=fields["name"],
        context=SpanContext(
            trace_id, int.from_bytes(fields["span_id"], "big"), is_remote=False, trace_flags=TraceFlags.DEFAULT
        ),
        parent=SpanContext(trace_id, int.from_bytes(fields["parent_span_id"], "big"), is_remote=True),
        resource=Resource(RESOURCE),
        attributes=fields["attributes"],
        status=Status(StatusCode.ERROR if error else StatusCode.UNSET),
        start_time=fields["start_ns"],
        end_time=fields["end_ns"],
        instrumentation_scope=SCOPE,
    )
    request = ExportTraceServiceRequest.FromString(export_request([encoded_span(**fields)]))
    expected = encode_spans([span])
    if not error:  # the SDK writes an empty status where there is none to tell
        expected.resource_spans[0].scope_spans[0].spans[0].ClearField("status")
    assert request == expected


def test_points_equal_what_the_sdk_says():
    points = [point for point in golden_points() if point.value is not None]
    data = sdk_metrics.MetricsData(
        [
            sdk_metrics.ResourceMetrics(
                resource=Resource(RESOURCE),
                scope_metrics=[sdk_metrics.ScopeMetrics(SCOPE, [sdk_metric(point) for point in points], schema_url="")],
                schema_url="",
            )
        ]
    )
    request = ExportMetricsServiceRequest.FromString(export_request([encode_points([point]) for point in points]))
    assert request == encode_metrics(data)


def sdk_metric(point):
    data_point = sdk_metrics.NumberDataPoint(point.attributes, 0, point.time_ns, point.value)
    unit = names.METRIC_UNITS[point.metric]
    return sdk_metrics.Metric(point.metric, "", unit, sdk_metrics.Gauge([data_point]))


def test_a_closing_point_has_the_flag_and_no_value():
    request = ExportMetricsServiceRequest.FromString(export_request([encode_points(golden_points())]))
    closing = request.resource_metrics[0].scope_metrics[0].metrics[-1].gauge.data_points[0]
    assert closing.flags == 1
    assert closing.WhichOneof("value") is None
    zero = request.resource_metrics[0].scope_metrics[0].metrics[1].gauge.data_points[0]
    assert (zero.flags, zero.WhichOneof("value"), zero.as_double) == (0, "as_double", 0.0)


def test_payloads_follow_each_other_in_one_request():
    span_ids = [number.to_bytes(8, "big") for number in range(1, 300)]
    traces = ExportTraceServiceRequest.FromString(
        export_request(encoded_span(**golden_span() | {"span_id": one}) for one in span_ids)
    )
    assert [span.span_id for span in spans_of(traces)] == [one.hex() for one in span_ids]
    assert [len(one.scope_spans) for one in traces.resource_spans] == [1]

    metrics = ExportMetricsServiceRequest.FromString(export_request([encode_points(golden_points())] * 300))
    seen = list(points_of(metrics))
    assert [point.name for point in seen] == [point.metric for point in golden_points()] * 300
    assert all(point.resource == RESOURCE and point.scope == TELEMETRY_SCOPE for point in seen)
    assert {point.unit for point in seen} == {"%", "MiBy"}


def test_a_request_without_payloads_is_still_one():
    assert list(spans_of(ExportTraceServiceRequest.FromString(export_request([])))) == []


@given(
    attributes=st.dictionaries(
        st.text(min_size=1, max_size=20),
        st.one_of(
            st.text(max_size=200),
            st.booleans(),
            st.integers(min_value=-(2**63), max_value=2**63 - 1),
            st.floats(allow_nan=False),
            st.lists(st.text(max_size=5), max_size=3),
        ),
        max_size=20,
    )
)
def test_attributes_keep_their_types_and_values(attributes):
    payload = encoded_span(**golden_span() | {"attributes": attributes})
    assert payload == encoded_span(**golden_span() | {"attributes": dict(attributes)})
    request = ExportTraceServiceRequest.FromString(export_request([payload]))
    seen = plain_attributes(request.resource_spans[0].scope_spans[0].spans[0].attributes)
    assert seen == attributes
    assert [type(seen[key]) for key in attributes] == [type(value) for value in attributes.values()]


def test_enum_values_are_plain_strings():
    attributes = {names.NEMO_GYM_SANDBOX_RESOURCE_STATUS: names.ResourceStatus.OK}
    request = ExportTraceServiceRequest.FromString(
        export_request([encoded_span(**golden_span() | {"attributes": attributes})])
    )
    assert next(spans_of(request)).attributes == {"nemo.gym.sandbox.resource.status": "ok"}


def identified(*, start_ns, trace_id, **parts):
    return span_id(identity(trace_id, *(parts[name].encode() for name in PARTS)), start_ns)


def test_span_id_never_changes():
    assert identified(**IDENTITY).hex() == "c5a4c36cff2cf954"


@given(
    field=st.sampled_from(["deployment", "sandbox_id", "span_name", "source"]),
    left=st.text(max_size=5),
    right=st.text(max_size=5),
)
def test_span_id_tells_every_part_apart(field, left, right):
    same = identified(**IDENTITY | {field: left}) == identified(**IDENTITY | {field: right})
    assert same == (left == right)


def test_span_id_tells_times_traces_and_borders_apart():
    others = [
        IDENTITY | {"start_ns": IDENTITY["start_ns"] + 1},
        IDENTITY | {"trace_id": bytes(16)},
        IDENTITY | {"deployment": "trainings", "sandbox_id": "b-1"},
    ]
    ids = {identified(**identity) for identity in [IDENTITY, *others]}
    assert len(ids) == 4
    assert all(len(one) == 8 and any(one) for one in ids)
