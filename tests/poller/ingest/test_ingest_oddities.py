"""What real senders write in ways of their own: ids, numbers, fields of the future, repeated keys."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_poller.ingest.events import RequestEvent
from sandgauge_schemas import names
from support.otlp_encodings import to_protobuf
from support.otlp_json import from_resource, start, traces

START_NS = 1_795_000_000_000_000_000
"""When the spans of the fixtures began."""


def id_of(number: str) -> str:
    return f"5e0d0000-0000-4000-8000-0000000000{number}"


async def test_ids_in_capitals_are_the_same_ids(ingest):
    assert (await ingest.post_file("ids-hex-upper.json")).status == 200
    (event,) = ingest.events
    assert event.trace_id == bytes.fromhex("3c1f5a0b9d2e47688a77c0de11220002")
    assert event.span_id == bytes.fromhex("a1b2c3d4e5f60002")


async def test_ids_in_base64_are_refused_with_the_reason(ingest):
    answer = await ingest.post_file("ids-base64.json")
    assert answer.status == 400
    assert json.loads(answer.body)["message"].startswith("traceId: not hexadecimal")
    assert ingest.events == []


async def test_empty_ids_reject_their_span_and_no_other(ingest):
    answer = await ingest.post_file("ids-one-empty-one-good.json")
    assert answer.status == 200
    partial = {"rejectedSpans": "2", "errorMessage": "2 bad_span_ids"}
    assert json.loads(answer.body) == {"partialSuccess": partial}
    assert ingest.sandbox_ids == [id_of("05")]
    assert ingest.metrics.spans_ == {("accepted", None): 1, ("rejected", "bad_span_ids"): 2}


@pytest.mark.parametrize(
    ("trace_id", "span_id"),
    [("ab" * 15, "cd" * 8), ("ab" * 17, "cd" * 8), ("ab" * 16, "cd" * 7), ("ab" * 16, "00" * 8), ("ab" * 16, None)],
)
async def test_ids_of_another_length_reject_their_span(ingest, trace_id, span_id):
    answer = await ingest.post_json(traces(from_resource({}, start(traceId=trace_id, spanId=span_id), start())))
    assert answer.status == 200
    assert len(ingest.events) == 1
    assert ingest.metrics.spans_[("rejected", "bad_span_ids")] == 1


@pytest.mark.parametrize("parent", ["", None, "00" * 8, "ab" * 7])
async def test_a_parent_that_is_none_leaves_a_root(ingest, parent):
    assert (await ingest.post_json(traces(from_resource({}, start(parentSpanId=parent))))).status == 200
    assert ingest.events[0].parent_span_id is None


async def test_whole_numbers_come_as_text_or_as_numbers_and_exact(ingest):
    assert (await ingest.post_file("int64-forms.json")).status == 200
    (event,) = ingest.events
    assert isinstance(event, RequestEvent)
    requested = event.record.requested
    assert (requested.memory_mib, requested.cpu, requested.gpu) == (4096, 2.0, 9_007_199_254_740_993)
    assert isinstance(requested.cpu, float)
    assert event.record.count == 1
    assert (event.start_ns, event.end_ns) == (START_NS, START_NS + 900_000_001)


async def test_a_time_with_an_exponent_is_refused_since_it_may_be_rounded(ingest):
    answer = await ingest.post_file("time-exponent.json")
    assert answer.status == 400
    assert b"startTimeUnixNano" in answer.body


@pytest.mark.parametrize(
    "number", ["1.5", "1e3", " 1", "+1", "0x1", "", 1.5, True, [], 2**63, str(2**63), -(2**63) - 1]
)
async def test_what_is_no_64_bit_number_is_refused_by_name(ingest, number):
    attribute = {"key": names.NEMO_GYM_SANDBOX_REQUESTED_COUNT, "value": {"intValue": number}}
    answer = await ingest.post_json(traces(from_resource({}, start(attributes=[attribute]))))
    assert answer.status == 400
    assert b"intValue" in answer.body


@pytest.mark.parametrize("number", [2, "2", 2.0, "2.0", "2e0", "20E-1"])
async def test_a_double_comes_in_every_form_of_a_number(ingest, number):
    hint = {"key": names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S, "value": {"doubleValue": number}}
    await ingest.post_json(traces(from_resource({}, start(attributes=[*start()["attributes"], hint]))))
    interval = ingest.events[0].record.sample_interval_s
    assert interval == 2.0
    assert isinstance(interval, float)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", 1e999, None])
async def test_a_double_that_is_no_number_is_absent(ingest, number):
    hint = {"key": names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S, "value": {"doubleValue": number}}
    await ingest.post_json(traces(from_resource({}, start(attributes=[*start()["attributes"], hint]))))
    assert ingest.events[0].record.sample_interval_s is None


@pytest.mark.parametrize("number", ["1_0", " 2 ", "", "two", True, [], 10**400])
async def test_a_double_that_is_not_written_as_one_is_refused(ingest, number):
    hint = {"key": names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S, "value": {"doubleValue": number}}
    answer = await ingest.post_json(traces(from_resource({}, start(attributes=[hint]))))
    assert answer.status == 400
    assert b"doubleValue" in answer.body


async def test_fields_kinds_and_statuses_of_the_future_lose_nothing(ingest):
    assert (await ingest.post_file("unknown-fields.json")).status == 200
    assert ingest.sandbox_ids == [id_of("0c"), id_of("0d")]
    assert ingest.metrics.spans_ == {("accepted", None): 2}


@pytest.mark.parametrize("value", [{}, {"stringValue": None}, {"uuidValue": "zz"}, None])
async def test_an_empty_value_counts_as_absent(ingest, value):
    keys = (names.NEMO_GYM_ROLLOUT_ID, names.NEMO_GYM_SANDBOX_REQUEST_ID, names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S)
    empty = [{"key": key, "value": value} for key in keys]
    assert (
        await ingest.post_json(traces(from_resource({}, start(attributes=[*start()["attributes"], *empty]))))
    ).status == 200
    record = ingest.events[0].record
    assert (record.keys.rollout_id, record.keys.request_id, record.sample_interval_s) == (None, None, None)
    assert record.keys.sandbox_id == "s-1"


async def test_an_empty_value_and_fields_of_the_future_are_alike_in_protobuf(ingest):
    request = ExportTraceServiceRequest()
    one = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(name=names.SPAN_GYM_SANDBOX_START, trace_id=b"\x01" * 16, span_id=b"\x01" * 8)
    )
    one.kind, one.status.code = 99, 7
    one.attributes.add(key=names.NEMO_GYM_SANDBOX_ID).value.string_value = "s-1"
    one.attributes.add(key=names.NEMO_GYM_ROLLOUT_ID)
    one.MergeFromString(b"\xca\x3e\x03new")  # field 1001
    assert (await ingest.post(request.SerializeToString(), "application/x-protobuf")).status == 200
    assert ingest.sandbox_ids == ["s-1"]
    assert ingest.events[0].record.keys.rollout_id is None


async def test_values_that_are_not_ours_lose_nothing(ingest):
    strange = [
        {"key": "other.number", "value": {"intValue": "many"}},
        {"key": "other.double", "value": {"doubleValue": {}}},
        {"key": "other.value", "value": None},
        {"value": {"stringValue": "no key"}},
    ]
    request = traces(from_resource({}, start(attributes=[*strange, *start()["attributes"]])))
    request["resourceSpans"][0]["resource"]["attributes"] = strange
    assert (await ingest.post_json(request)).status == 200
    assert ingest.sandbox_ids == ["s-1"]


WRONG_TYPES = {
    "name": [[], {}, 5, True],
    "traceId": [[], {}, 5, False],
    "spanId": [[], {}, 0, True],
    "parentSpanId": [[], {}, 5, "xyz"],
    "attributes": [{}, {"key": "x"}, 5, "x", ["x"]],
    "status": [[], 5, "x"],
    "startTimeUnixNano": [[], {}, True, 1.5],
}


@pytest.mark.parametrize(("field", "wrong"), [(field, wrong) for field, many in WRONG_TYPES.items() for wrong in many])
async def test_a_field_of_the_wrong_type_is_refused_by_name(ingest, silent_log, field, wrong):
    answer = await ingest.post_json(traces(from_resource({}, start(**{field: wrong}))))
    assert answer.status == 400
    assert field in json.loads(answer.body)["message"]


async def test_null_is_a_field_that_was_left_out(ingest):
    bare = start(kind=None, status=None, endTimeUnixNano=None, startTimeUnixNano=None, links=None)
    request = traces(from_resource({}, bare, {**bare, "name": None}), {"resource": None, "scopeSpans": None})
    assert (await ingest.post_json(request)).status == 200
    assert ingest.sandbox_ids == ["s-1"]


async def test_a_key_given_twice_is_settled_by_the_last_and_counted_where_they_differ(ingest):
    answer = await ingest.post_file("duplicate-keys.json")
    assert answer.status == 200
    assert ingest.sandbox_ids == [id_of("10"), id_of("12"), id_of("13")]
    assert ingest.metrics.conflicts == {"attribute": 1}


async def test_twins_are_settled_alike_in_protobuf(ingest):
    request = ExportTraceServiceRequest()
    one = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(name=names.SPAN_GYM_SANDBOX_START, trace_id=b"\x01" * 16, span_id=b"\x01" * 8)
    )
    for sandbox_id in ("first", "last"):
        one.attributes.add(key=names.NEMO_GYM_SANDBOX_ID).value.string_value = sandbox_id
    await ingest.post(request.SerializeToString(), "application/x-protobuf")
    assert ingest.sandbox_ids == ["last"]
    assert ingest.metrics.conflicts == {"attribute": 1}


async def test_a_key_given_twice_in_the_resource_is_settled_and_counted_alike_in_both_encodings(start_ingest):
    twice = [{"key": names.NEMO_RUN_ID, "value": {"stringValue": value}} for value in ("first", "last")]
    request = traces(from_resource({}, start()))
    request["resourceSpans"][0]["resource"]["attributes"] = twice
    for send in (
        lambda ingest: ingest.post_json(request),
        lambda ingest: ingest.post(to_protobuf(request), "application/x-protobuf"),
    ):
        ingest = await start_ingest()
        assert (await send(ingest)).status == 200
        assert ingest.events[0].record.keys.run_id == "last"
        assert ingest.metrics.conflicts == {"attribute": 1}
