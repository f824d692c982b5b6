"""What real senders get wrong: ids, numbers, fields of the future, repeated keys, other things than spans."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_poller.ingest.events import RequestEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_schemas import names
from support import otlp_encodings
from support.otlp_json import GYM_CASES, captured, from_resource, span, traces

START_NS = 1_795_000_000_000_000_000
"""When the spans of the fixtures began."""


def id_of(number: str) -> str:
    return f"5e0d0000-0000-4000-8000-0000000000{number}"


def start(**fields):
    attributes = {names.NEMO_GYM_SANDBOX_ID: "s-1", names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox"}
    return {**span(names.SPAN_GYM_SANDBOX_START, attributes), **fields}


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
        lambda ingest: ingest.post(otlp_encodings.to_protobuf(request), "application/x-protobuf"),
    ):
        ingest = await start_ingest()
        assert (await send(ingest)).status == 200
        assert ingest.events[0].record.keys.run_id == "last"
        assert ingest.metrics.conflicts == {"attribute": 1}


@pytest.mark.parametrize("name", ["not-otlp.json", "old-schema.json", "wrong-signal.json"])
async def test_json_that_holds_no_otlp_spans_is_refused_and_counted(ingest, name):
    answer = await ingest.post_file(name)
    assert answer.status == 400
    assert json.loads(answer.body)["message"]
    assert ingest.metrics.spans_ == {("rejected", "undecodable"): 1}


SPANS = [start()]
NOT_WHERE_SPANS_BELONG = {
    "underscores": {"resource": {}, "scope_spans": [{"spans": SPANS}]},
    "logs": {"resource": {}, "scopeLogs": [{"logRecords": [{}]}]},
    "spans of a resource": {"resource": {}, "spans": SPANS},
    "misspelt": {"resource": {}, "scopeSpans": [{"scope": {}, "span": SPANS}]},
    "logs of a scope": {"scopeSpans": [{"scope": {}, "logRecords": [{}]}]},
}


@pytest.mark.parametrize("resource_spans", NOT_WHERE_SPANS_BELONG.values(), ids=NOT_WHERE_SPANS_BELONG)
async def test_what_stands_where_spans_belong_is_never_dropped_in_silence(ingest, resource_spans):
    answer = await ingest.post_json(traces(resource_spans))
    assert answer.status == 400
    assert "it has no" in json.loads(answer.body)["message"]
    assert ingest.metrics.spans_ == {("rejected", "undecodable"): 1}


@pytest.mark.parametrize(
    "resource_spans",
    [
        {},
        {"resource": {}, "schemaUrl": "https://schema.invalid/1"},
        {"resource": {}, "scopeSpans": [], "ofTheFuture": 1},
        {"scopeSpans": [{}, {"scope": {"name": "x"}, "schemaUrl": ""}, {"spans": [], "ofTheFuture": 1}]},
    ],
)
async def test_a_resource_and_a_scope_may_have_no_spans(ingest, resource_spans):
    assert (await ingest.post_json(traces(resource_spans, from_resource({}, start())))).status == 200
    assert ingest.sandbox_ids == ["s-1"]


async def test_another_signal_in_protobuf_is_no_silent_success(ingest):
    """Logs and spans have the same outer fields, so the decoder sees spans without a name."""
    logs = b"\x0a\x0b\x12\x09\x12\x07\x2a\x05\x0a\x03abc"  # one log record whose body is a text
    answer = await ingest.post(logs, "application/x-protobuf")
    assert answer.status == 200
    assert ingest.metrics.spans_ == {("ignored", "other_span"): 1}


async def test_the_empty_object_is_an_empty_request(ingest):
    assert (await ingest.post_file("empty.json")).status == 200


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"startTimeUnixNano": None, "endTimeUnixNano": None, "kind": None}, (None, None)),
        ({"startTimeUnixNano": "5", "endTimeUnixNano": "0"}, (None, None)),
        ({"startTimeUnixNano": str(START_NS), "endTimeUnixNano": str(START_NS - 1)}, (START_NS, None)),
        ({"startTimeUnixNano": str(START_NS), "endTimeUnixNano": str(START_NS + 3600 * 10**9)}, (START_NS, None)),
        ({"startTimeUnixNano": str(START_NS + 3600 * 10**9), "endTimeUnixNano": str(START_NS)}, (None, START_NS)),
        ({"startTimeUnixNano": str(2**64 - 1), "endTimeUnixNano": str(2**64 - 1)}, (None, None)),
    ],
    ids=["none", "1970", "ends before it starts", "ends in an hour", "starts in an hour", "largest"],
)
async def test_times_that_cannot_be_true_are_absent_and_counted(ingest, fields, kept):
    assert (await ingest.post_json(traces(from_resource({}, start(**fields))))).status == 200
    (event,) = ingest.events
    assert (event.start_ns, event.end_ns) == kept
    assert ingest.metrics.spans_ == {("accepted", "odd_time"): 1}


async def test_a_clock_that_is_a_little_ahead_is_believed(ingest):
    ahead = START_NS + 50 * 10**9
    await ingest.post_json(traces(from_resource({}, start(startTimeUnixNano=str(ahead), endTimeUnixNano=str(ahead)))))
    assert ingest.events[0].end_ns == ahead
    assert ingest.metrics.spans_ == {("accepted", None): 1}


async def test_our_own_spans_are_never_events(ingest):
    own = {names.SERVICE_NAME: names.SANDGAUGE_POLLER_SERVICE_NAME}
    inner = span(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, {names.NEMO_GYM_SANDBOX_ID: "s-1"})
    request = traces(from_resource(own, start(), inner), from_resource({names.SERVICE_NAME: "other"}, inner))
    assert (await ingest.post_json(request)).status == 200
    assert not ingest.commit.entered.is_set()
    assert ingest.metrics.spans_ == {("ignored", "own_span"): 1, ("ignored", "other_span"): 2}


@pytest.mark.parametrize("status", [{}, {"code": 2, "message": "boom"}])
async def test_a_start_without_a_sandbox_id_was_not_created_whatever_its_status(ingest, status):
    request = traces(from_resource({}, start(attributes=[], status=status)))
    assert (await ingest.post_json(request)).status == 200
    assert ingest.events == []
    assert ingest.metrics.spans_ == {("ignored", "not_created"): 1}


@pytest.mark.parametrize(
    "sandbox_id",
    ["../x", "a/b", ".hidden", "-x", "a b", "a\n", "ä", "a?b", "a%2Fb", "x" * 129, "x" * 5000, "\ud800", "\x00"],
)
async def test_an_id_that_fits_no_url_is_counted_and_never_tracked(ingest, silent_log, sandbox_id):
    attributes = [{"key": names.NEMO_GYM_SANDBOX_ID, "value": {"stringValue": sandbox_id}}]
    stop = {**span(names.SPAN_GYM_SANDBOX_STOP), "attributes": attributes}
    answer = await ingest.post_json(traces(from_resource({}, start(attributes=attributes), stop, start())))
    assert answer.status == 200
    assert ingest.sandbox_ids == ["s-1"]
    assert sum(count for (outcome, _), count in ingest.metrics.spans_.items() if outcome != "accepted") == 2


async def test_half_a_surrogate_pair_counts_as_absent(ingest):
    request_id = {"key": names.NEMO_GYM_SANDBOX_REQUEST_ID, "value": {"stringValue": "\ud800"}}
    await ingest.post_json(traces(from_resource({}, start(attributes=[*start()["attributes"], request_id]))))
    assert ingest.events[0].record.keys.request_id is None


@pytest.mark.parametrize(
    ("code", "failed"), [(0, False), (1, False), (2, True), ("2", True), ("STATUS_CODE_ERROR", True)]
)
async def test_a_stop_with_status_error_has_failed(ingest, code, failed):
    stop = {**start(status={"code": code}), "name": names.SPAN_GYM_SANDBOX_STOP}
    await ingest.post_json(traces(from_resource({}, stop)))
    assert [event.failed for event in ingest.events if isinstance(event, StopEvent)] == [failed]


async def test_join_keys_of_the_resource_are_inherited_and_those_of_the_span_win(ingest):
    resource = {names.NEMO_RUN_ID: "run-of-resource", names.NEMO_GYM_ROLLOUT_ID: "7-0"}
    own = span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "s-2", names.NEMO_RUN_ID: "run-of-span"})
    await ingest.post_json(traces(from_resource(resource, start(), own)))
    keys = [event.record.keys for event in ingest.events]
    assert [(key.run_id, key.rollout_id) for key in keys] == [("run-of-resource", "7-0"), ("run-of-span", "7-0")]


async def test_a_request_without_its_id_and_a_rollout_without_one_are_no_events(ingest):
    nameless = span(names.SPAN_GYM_SANDBOX_REQUEST), span(names.SPAN_GYM_ROLLOUT), span(names.SPAN_GYM_SANDBOX_STOP)
    assert (await ingest.post_json(traces(from_resource({}, *nameless)))).status == 200
    reasons = {("rejected", "no_request_id"): 1, ("ignored", "no_rollout_id"): 1, ("ignored", "no_sandbox_id"): 1}
    assert ingest.metrics.spans_ == reasons


GYM_EVENTS = {
    # starts, stops, rollouts
    "borrowed": (1, 2, 0),
    "cancelled_create": (0, 0, 0),
    "compose": (2, 2, 0),
    "fake_fail": (0, 0, 0),
    "fake_ok": (1, 1, 0),
    "opensandbox": (1, 1, 0),
    "opensandbox_defaults": (3, 3, 0),
    "rollout": (6, 6, 2),
}


@pytest.mark.parametrize("case", GYM_CASES)
async def test_stock_gym_is_understood_in_both_encodings(start_ingest, case):
    request = captured(case)
    ended = max(
        int(one["endTimeUnixNano"])
        for resource in request["resourceSpans"]
        for scope in resource["scopeSpans"]
        for one in scope["spans"]
    )
    by_json, by_protobuf = await start_ingest(now_ns=ended), await start_ingest(now_ns=ended)
    assert (await by_json.post_json(request)).status == 200
    assert (await by_protobuf.post(otlp_encodings.to_protobuf(request), "application/x-protobuf")).status == 200
    assert by_json.events == by_protobuf.events
    assert by_json.metrics.spans_ == by_protobuf.metrics.spans_
    found = tuple(sum(isinstance(e, kind) for e in by_json.events) for kind in (StartEvent, StopEvent, RolloutEvent))
    assert found == GYM_EVENTS[case]
