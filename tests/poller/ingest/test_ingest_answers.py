"""How a request is answered: what is taken, what is refused and why, and when."""

import asyncio
import gzip
import json

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from sandgauge_poller.ingest import traces as ingest_traces
from sandgauge_schemas import names
from sandgauge_schemas.names import SpanOutcome
from support.otlp_json import from_resource, span, traces

PROTOBUF = "application/x-protobuf"
START = span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "s-1"})
REQUEST = traces(from_resource({}, START))


def protobuf(*sandbox_ids: str) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, sandbox_id in enumerate(sandbox_ids, start=1):
        added = spans.add(trace_id=b"\x01" * 16, span_id=bytes([number]) * 8, name=names.SPAN_GYM_SANDBOX_START)
        added.attributes.add(key=names.NEMO_GYM_SANDBOX_ID).value.string_value = sandbox_id
    return request.SerializeToString()


async def test_the_answer_comes_only_after_the_commit(ingest):
    ingest.commit.open.clear()
    asked = asyncio.create_task(ingest.post_json(REQUEST))
    await ingest.commit.entered.wait()
    done, _ = await asyncio.wait([asked], timeout=0.2)
    assert not done
    assert ingest.events == []
    ingest.commit.open.set()
    answer = await asked
    assert (answer.status, answer.body) == (200, b"{}")
    assert ingest.sandbox_ids == ["s-1"]


@pytest.mark.parametrize("error", [RuntimeError("no space"), TimeoutError(), KeyError("x"), OSError("disk")])
@pytest.mark.parametrize("content_type", [PROTOBUF, "application/json"])
async def test_an_unforeseen_error_asks_the_sender_to_come_again(ingest, caplog, error, content_type):
    ingest.commit.error = error
    body = protobuf("s-1") if content_type == PROTOBUF else json.dumps(REQUEST).encode()
    answer = await ingest.post(body, content_type)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.headers["Content-Type"] == content_type
    assert "could not take it" in str(Status.FromString(answer.body) if content_type == PROTOBUF else answer.body)
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]
    ingest.commit.error = None
    assert (await ingest.post(body, content_type)).status == 200


async def test_more_requests_than_can_be_in_work_are_asked_to_come_again(ingest, monkeypatch, silent_log):
    monkeypatch.setattr(ingest_traces, "MOST_REQUESTS_AT_ONCE", 1)
    ingest.commit.open.clear()
    first = asyncio.create_task(ingest.post_json(REQUEST))
    await ingest.commit.entered.wait()
    second = await ingest.post_json(REQUEST)
    assert (second.status, second.headers["Retry-After"]) == (503, "1")
    ingest.commit.open.set()
    assert (await first).status == 200
    assert (await ingest.post_json(REQUEST)).status == 200


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic c2VjcmV0", "secret", "Bearer secret2", b"Bearer \xff\xfe"],
)
async def test_without_the_token_nothing_is_taken(start_ingest, silent_log, authorization):
    ingest = await start_ingest(bearer_token="secret")
    if isinstance(authorization, bytes):
        status_line = await raw_exchange(ingest.address, b"Authorization: " + authorization)
        assert b" 401 " in status_line
    else:
        headers = {} if authorization is None else {"Authorization": authorization}
        answer = await ingest.post_json(REQUEST, **headers)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert b"secret" not in answer.body
    assert ingest.events == []


async def raw_exchange(address, header: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    body = json.dumps(REQUEST).encode()
    writer.write(
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + header
        + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
        + body
    )
    line = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return line


@pytest.mark.parametrize("authorization", ["Bearer sécret", "bearer sécret"])
async def test_with_the_token_spans_are_taken(start_ingest, authorization):
    ingest = await start_ingest(bearer_token="sécret")
    answer = await ingest.post_json(REQUEST, Authorization=authorization)
    assert answer.status == 200


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json; charset=utf-8", None),
        ("Application/JSON", None),
        ("application/x-protobuf;v=1", protobuf("s-1")),
        ("APPLICATION/X-PROTOBUF", protobuf("s-1")),
    ],
)
async def test_a_content_type_may_have_capitals_and_parameters(ingest, content_type, body):
    answer = await ingest.post(body or json.dumps(REQUEST).encode(), content_type)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == content_type.partition(";")[0].lower()
    assert ingest.sandbox_ids == ["s-1"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/grpc", "application/jsonx", ";", "a/b/c"])
async def test_any_other_content_type_is_refused_with_those_that_are_taken(ingest, content_type):
    answer = await ingest.post(json.dumps(REQUEST).encode(), content_type)
    assert answer.status == 415
    assert b"application/x-protobuf" in answer.body
    assert b"application/json" in answer.body
    assert ingest.events == []


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity", None])
async def test_a_body_comes_plain_or_in_gzip(ingest, encoding):
    body = protobuf("s-1")
    packed = gzip.compress(body) if encoding and encoding.lower() == "gzip" else body
    headers = {} if encoding is None else {"Content_Encoding": encoding}
    assert (await ingest.post(packed, PROTOBUF, **headers)).status == 200
    assert ingest.sandbox_ids == ["s-1"]


@pytest.mark.parametrize("encoding", ["deflate", "br", "gzip, gzip", "zstd"])
async def test_another_content_encoding_is_refused(ingest, encoding):
    answer = await ingest.post(protobuf("s-1"), PROTOBUF, Content_Encoding=encoding)
    assert answer.status == 415
    assert b"gzip" in answer.body


WHOLE = gzip.compress(protobuf("s-1"))


@pytest.mark.parametrize(
    "body",
    [b"", b"plain", WHOLE[:-1], WHOLE[:10], WHOLE[:-8] + bytes(8), WHOLE + b"more", WHOLE + WHOLE],
    ids=["empty", "no gzip", "cut", "header alone", "wrong sum", "a tail", "two streams"],
)
async def test_a_gzip_stream_must_be_one_and_whole(ingest, silent_log, body):
    answer = await ingest.post(body, PROTOBUF, Content_Encoding="gzip")
    assert answer.status == 400
    assert b"gzip" in answer.body
    assert ingest.events == []


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'"x"', b"\xff\xfe{}", b"[" * 100_000, b"1" * 5000])
async def test_json_that_is_none_is_undecodable(ingest, silent_log, body):
    answer = await ingest.post(body)
    assert answer.status == 400
    assert "message" in json.loads(answer.body)
    assert ingest.metrics.spans_ == {("rejected", "undecodable"): 1}


@pytest.mark.parametrize("body", [b"\x00", b"\xff" * 40, b"\x0a\x05abc", b'{"resourceSpans": []}'])
async def test_protobuf_that_is_none_is_undecodable(ingest, silent_log, body):
    answer = await ingest.post(body, PROTOBUF)
    assert answer.status == 400
    assert Status.FromString(answer.body).message
    assert ingest.metrics.spans_ == {("rejected", "undecodable"): 1}


async def test_a_byte_order_mark_is_no_fault(ingest):
    assert (await ingest.post(b"\xef\xbb\xbf" + json.dumps(REQUEST).encode())).status == 200
    assert ingest.sandbox_ids == ["s-1"]


async def test_the_limit_is_exact(start_ingest, silent_log):
    body = json.dumps(REQUEST).encode()
    exact = await start_ingest(max_body_size=len(body))
    assert (await exact.post(body)).status == 200
    smaller = await start_ingest(max_body_size=len(body) - 1)
    for encoding, sent in (("identity", body), ("gzip", gzip.compress(body))):
        answer = await smaller.post(sent, Content_Encoding=encoding)
        assert answer.status == 413
        assert str(len(body) - 1).encode() in answer.body
    assert smaller.events == []


async def test_spans_that_cannot_be_are_told_to_the_sender_and_the_others_are_taken(ingest):
    answer = await ingest.post(protobuf("good", "../../etc", "x" * 129, "also-good"), PROTOBUF)
    assert answer.status == 200
    success = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (success.rejected_spans, success.error_message) == (2, "2 bad_sandbox_id")
    assert ingest.sandbox_ids == ["good", "also-good"]
    assert ingest.metrics.spans_ == {("accepted", "odd_time"): 2, ("rejected", "bad_sandbox_id"): 2}


async def test_beyond_the_capacity_spans_are_still_answered_200_and_counted(ingest):
    ingest.commit.outcome = SpanOutcome.REJECTED
    answer = await ingest.post_json(REQUEST)
    assert (answer.status, answer.body) == (200, b"{}")
    assert ingest.metrics.spans_ == {("rejected", "capacity"): 1}


async def test_repeats_are_counted_as_such(start_ingest):
    ingest = await start_ingest(now_ns=int(START["endTimeUnixNano"]))
    ingest.commit.outcome = SpanOutcome.REPEATED
    assert (await ingest.post_json(REQUEST)).status == 200
    assert ingest.metrics.spans_ == {("repeated", None): 1}


async def test_an_empty_request_commits_nothing(ingest):
    for content_type, body in ((PROTOBUF, b""), ("application/json", b"{}")):
        assert (await ingest.post(body, content_type)).status == 200
    assert not ingest.commit.entered.is_set()
    assert ingest.metrics.spans_ == {}


async def test_a_sender_that_leaves_in_mid_body_is_no_error_of_ours(ingest, silent_log):
    for framing in (b"Content-Length: 1000\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"):
        _, writer = await asyncio.open_connection(*ingest.address)
        writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + framing)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    assert (await ingest.post_json(REQUEST)).status == 200


async def test_a_slow_sender_is_asked_to_come_again(ingest, monkeypatch, silent_log):
    monkeypatch.setattr("sandgauge_poller.ingest.body.READ_TIMEOUT_S", 0.05)
    never = asyncio.Event()

    async def body():
        yield b"{"
        await never.wait()

    asked = asyncio.create_task(ingest.post(body()))
    answer = await asked
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert b"slowly" in answer.body


async def test_only_one_path_and_method_take_spans(ingest):
    base = "http://{}:{}".format(*ingest.address)
    async with ingest.http.post(f"{base}/v1/metrics", data=b"{}") as answer:
        assert answer.status == 404
    async with ingest.http.get(f"{base}/v1/traces") as answer:
        assert answer.status == 405
