"""What a span means to the poller, and what is no span at all."""

import json

import pytest

from sandgauge_poller.ingest.events import RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.ingest.spans import MAX_TEXT
from sandgauge_schemas import names
from support.otlp_encodings import to_protobuf
from support.otlp_json import GYM_CASES, captured, from_resource, span, start, traces

START_NS = 1_795_000_000_000_000_000
"""Ten seconds before the server's now."""


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


@pytest.mark.parametrize(
    ("told", "kept"),
    [("\ud800", False), ("x" * MAX_TEXT, True), ("x" * (MAX_TEXT + 1), False)],
    ids=["half", "long", "longer"],
)
async def test_half_a_surrogate_pair_and_a_text_that_is_too_long_count_as_absent(ingest, told, kept):
    request_id = {"key": names.NEMO_GYM_SANDBOX_REQUEST_ID, "value": {"stringValue": told}}
    await ingest.post_json(traces(from_resource({}, start(attributes=[*start()["attributes"], request_id]))))
    assert ingest.events[0].record.keys.request_id == (told if kept else None)


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
    assert (await by_protobuf.post(to_protobuf(request), "application/x-protobuf")).status == 200
    assert by_json.events == by_protobuf.events
    assert by_json.metrics.spans_ == by_protobuf.metrics.spans_
    found = tuple(sum(isinstance(e, kind) for e in by_json.events) for kind in (StartEvent, StopEvent, RolloutEvent))
    assert found == GYM_EVENTS[case]
