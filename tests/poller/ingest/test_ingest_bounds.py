"""Bounds on what a body may be made of: a few bytes must not become a great deal of memory or time."""

import json
from collections import Counter

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from sandgauge_poller.ingest import spans as spans_module
from sandgauge_poller.ingest.otlp_json import decode_json
from sandgauge_poller.ingest.otlp_protobuf import MAX_MESSAGE, decode_protobuf
from sandgauge_poller.ingest.spans import TooManyItemsError, UndecodableError
from sandgauge_poller.ingest.wire import WireReader
from sandgauge_schemas import names
from support.otlp_json import from_resource, span, traces

PROTOBUF = "application/x-protobuf"


def start(sandbox_id: str, name: str = names.SPAN_GYM_SANDBOX_START, padding: int = 0) -> Span:
    made = Span(name=name, trace_id=b"\x01" * 16, span_id=b"\x02" * 8)
    made.attributes.add(key=names.NEMO_GYM_SANDBOX_ID).value.string_value = sandbox_id
    if padding:
        made.attributes.add(key="padding").value.string_value = "x" * padding
    return made


def request(*spans: Span, resource: Resource | None = None) -> bytes:
    scope_spans = [ScopeSpans(spans=spans)]
    whole = ResourceSpans(resource=resource, scope_spans=scope_spans)
    return ExportTraceServiceRequest(resource_spans=[whole]).SerializeToString()


async def test_a_span_that_is_too_large_is_rejected_and_its_neighbours_are_taken(ingest):
    answer = await ingest.post(request(start("a"), start("b", padding=MAX_MESSAGE), start("c")), PROTOBUF)
    assert answer.status == 200
    success = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (success.rejected_spans, success.error_message) == (1, "1 too_large")
    assert ingest.sandbox_ids == ["a", "c"]
    assert ingest.metrics.spans_["rejected", "too_large"] == 1


async def test_spans_of_a_resource_that_is_too_large_are_rejected(ingest):
    resource = Resource()
    resource.attributes.add(key="padding").value.string_value = "x" * MAX_MESSAGE
    answer = await ingest.post(request(start("a"), Span(name="another"), resource=resource), PROTOBUF)
    assert answer.status == 200
    assert ingest.metrics.spans_ == {("rejected", "too_large"): 1, ("ignored", "other_span"): 1}


def test_of_spans_that_nobody_looks_into_any_size_is_passed_over():
    decoded = decode_protobuf(request(start("a", name="llm.call", padding=3 * MAX_MESSAGE), start("b")))
    assert [one.attributes[names.NEMO_GYM_SANDBOX_ID] for one in decoded.spans] == ["b"]
    assert decoded.passed_over == {"other_span": 1}


def test_a_resource_that_comes_in_parts_is_one():
    first, second = Resource(), Resource()
    first.attributes.add(key=names.NEMO_RUN_ID).value.string_value = "run-1"
    second.attributes.add(key=names.SERVICE_NAME).value.string_value = names.SANDGAUGE_POLLER_SERVICE_NAME
    whole = [ResourceSpans(resource=part).SerializeToString() for part in (first, second)]
    spans = ResourceSpans(scope_spans=[ScopeSpans(spans=[start("a")])]).SerializeToString()
    for content, own in ((whole[0] + spans, False), (spans + whole[0], False), (whole[0] + spans + whole[1], True)):
        body = ExportTraceServiceRequest(resource_spans=[ResourceSpans.FromString(content)])
        decoded = decode_protobuf(body.SerializeToString())
        in_parts = decode_protobuf(b"\x0a" + bytes([len(content) & 127 | 128, len(content) >> 7]) + content)
        assert in_parts == decoded
        assert decoded.passed_over == Counter({"own_span": 1} if own else {})


def test_of_several_names_of_a_span_the_last_one_counts():
    renamed = start("a").SerializeToString() + Span(name="another").SerializeToString()
    scope_spans = b"\x12" + bytes([len(renamed) & 127 | 128, len(renamed) >> 7]) + renamed
    resource_spans = b"\x12" + bytes([len(scope_spans) & 127 | 128, len(scope_spans) >> 7]) + scope_spans
    body = b"\x0a" + bytes([len(resource_spans) & 127 | 128, len(resource_spans) >> 7]) + resource_spans
    assert decode_protobuf(body).passed_over == {"other_span": 1}


@pytest.mark.parametrize(("most", "fits"), [(3, True), (2, False)])
def test_the_number_of_spans_is_bounded_exactly(monkeypatch, most, fits):
    monkeypatch.setattr(spans_module, "MOST_SPANS", most)
    sent = [span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "a"}), span("b"), span("c")]
    bodies = {
        decode_json: json.dumps(traces(from_resource({}, *sent))).encode(),
        decode_protobuf: request(start("a"), start("b", name="b"), start("c", name="c")),
    }
    for decode, body in bodies.items():
        if fits:
            assert len(decode(body).spans) == 1
        else:
            with pytest.raises(TooManyItemsError):
                decode(body)


@pytest.mark.parametrize(("most", "fits"), [(2, True), (1, False)])
def test_the_number_of_lifecycle_spans_is_bounded_exactly(monkeypatch, most, fits):
    monkeypatch.setattr(spans_module, "MOST_LIFECYCLE_SPANS", most)
    one = span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "a"})
    bodies = {
        decode_json: json.dumps(traces(from_resource({}, one, one, *[span("another")] * 5))).encode(),
        decode_protobuf: request(start("a"), start("b"), *[Span(name="another")] * 5),
    }
    for decode, body in bodies.items():
        if fits:
            assert len(decode(body).spans) == 2
        else:
            with pytest.raises(TooManyItemsError):
                decode(body)


async def test_too_many_items_are_413_and_counted(ingest, monkeypatch, silent_log):
    monkeypatch.setattr(spans_module, "MOST_SPANS", 0)
    answer = await ingest.post(request(start("a")), PROTOBUF)
    assert answer.status == 413
    assert b"smaller batches" in answer.body
    assert ingest.metrics.spans_ == {("rejected", "too_many_items"): 1}


BROKEN = {
    "field 0": b"\x00\x00",
    "no length": b"\x0a",
    "too short": b"\x0a\x05abc",
    "a length beyond all": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "half of eight bytes": b"\x09abc",
    "half of four bytes": b"\x0d\x01",
    "half of a number": b"\x08\x80",
    "a group": b"\x0b\x0c",
    "an unknown kind": b"\x0f\x00",
    "an endless number": b"\x80" * 11,
}


@pytest.mark.parametrize("message", BROKEN.values(), ids=BROKEN)
def test_what_is_no_protobuf_is_told(message):
    with pytest.raises(UndecodableError, match="protobuf"):
        list(WireReader().contents(memoryview(message), 1))


def test_fields_of_other_kinds_are_stepped_over_and_paid_for():
    message = b"\x08\x96\x01" + b"\x0a\x01a" + b"\x11" + bytes(8) + b"\x1d" + bytes(4) + b"\x12\x01b" + b"\x0a\x00"
    assert list(map(bytes, WireReader(6).contents(memoryview(message), 1))) == [b"a", b""]
    with pytest.raises(TooManyItemsError):
        list(WireReader(5).contents(memoryview(message), 1))
