"""The stand-in for a Collector: what it forwards, what it writes, and what it does while the poller is away."""

import asyncio
import gzip
import json
from contextlib import AsyncExitStack

import aiohttp
import pytest
from aiohttp import web
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_demo.stand_in import NOTICE, StandInCollector
from sandgauge_schemas.names import (
    NEMO_GYM_ROLLOUT_ID,
    NEMO_RUN_ID,
    OTEL_TRACE_ID,
    SANDGAUGE_POLLER_SERVICE_NAME,
    SANDGAUGE_TRACE_GROUP,
    SERVICE_NAME,
    SPAN_GYM_ROLLOUT,
    SPAN_GYM_SANDBOX_EXEC,
    SPAN_GYM_SANDBOX_REQUEST,
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    SPAN_GYM_SANDBOX_START,
    SPAN_GYM_SANDBOX_STOP,
)
from support.otlp_json import captured, from_resource, new_trace_id, plain, span, traces

GYM = {SERVICE_NAME: "nemo-gym/swe_agent", NEMO_RUN_ID: "run-1", "process.pid": 17}
POLLER = {SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME}
LIFECYCLE = [SPAN_GYM_SANDBOX_REQUEST, SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP, SPAN_GYM_ROLLOUT]


class Poller:
    """Takes the feed, and answers as it is told."""

    def __init__(self):
        self.answers = []
        self.spans = []
        self.got = asyncio.Condition()

    async def traces(self, request):
        status = self.answers.pop(0) if self.answers else 200
        async with self.got:
            if status == 200:
                self.spans += [
                    (plain(one["resource"]["attributes"]), two)
                    for one in (await request.json())["resourceSpans"]
                    for two in one["scopeSpans"][0]["spans"]
                ]
            self.got.notify_all()
        return web.Response(status=status)

    async def wait_for(self, count):
        async with self.got, asyncio.timeout(60):
            await self.got.wait_for(lambda: len(self.spans) >= count)


@pytest.fixture
async def poller():
    return Poller()


@pytest.fixture
async def stand_in(poller, tmp_path):
    application = web.Application()
    application.router.add_post("/v1/traces", poller.traces)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    joined_file = tmp_path / "joined.jsonl"
    running = StandInCollector(
        poller_endpoint=endpoint, joined_file=joined_file, join_window_s=3600, retry_interval_s=0.01
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running)
        running.joined_file, running.stop = joined_file, stack.aclose
        yield running
    await runner.cleanup()


async def send(stand_in, request, *, protobuf=False, compressed=False, signal="traces"):
    body = json.dumps(request).encode()
    if protobuf:
        body = as_protobuf(request).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf" if protobuf else "application/json; charset=utf-8"}
    if compressed:
        body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{stand_in.endpoint}/v1/{signal}", data=body, headers=headers) as answer,
    ):
        return answer.status, answer.content_type, await answer.read()


def as_protobuf(request):
    """Build the message by hand where ids are concerned: protobuf's own JSON takes them for base64."""
    message = ExportTraceServiceRequest()
    without_ids = json.loads(json.dumps(request))
    spans = [one for each in without_ids["resourceSpans"] for scope in each["scopeSpans"] for one in scope["spans"]]
    ids = [(bytes.fromhex(one.pop("traceId")), bytes.fromhex(one.pop("spanId"))) for one in spans]
    ParseDict(without_ids, message)
    built = [one for each in message.resource_spans for scope in each.scope_spans for one in scope.spans]
    for one, (trace_id, span_id) in zip(built, ids, strict=True):
        one.trace_id, one.span_id = trace_id, span_id
    return message


async def lines(stand_in):
    """Stop the stand-in, which then writes what it still gathers, and return (resource, spans) of each line."""
    await stand_in.stop()
    return [
        [
            (plain(one["resource"]["attributes"]), one["scopeSpans"][0]["spans"])
            for one in json.loads(line)["resourceSpans"]
        ]
        for line in stand_in.joined_file.read_text().splitlines()
    ]


@pytest.mark.parametrize("protobuf", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
async def test_lifecycle_spans_go_on_whatever_form_they_come_in(stand_in, poller, protobuf, compressed):
    others = [SPAN_GYM_SANDBOX_EXEC, SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, "gym.verify", "gym.sandbox.starts"]
    sent = [span(name) for name in LIFECYCLE + others]
    status, content_type, body = await send(
        stand_in, traces(from_resource(GYM, *sent)), protobuf=protobuf, compressed=compressed
    )
    assert status == 200
    assert (content_type, body) == (("application/x-protobuf", b"") if protobuf else ("application/json", b"{}"))
    await poller.wait_for(4)
    assert [one["name"] for _, one in poller.spans] == LIFECYCLE
    for (resource, found), original in zip(poller.spans, sent, strict=False):
        assert resource[SERVICE_NAME] == GYM[SERVICE_NAME]
        assert (found["traceId"], found["spanId"]) == (original["traceId"], original["spanId"])
        assert found["startTimeUnixNano"] == original["startTimeUnixNano"]
        assert plain(found["attributes"]) == {NEMO_RUN_ID: "run-1"}


async def test_the_pollers_own_spans_never_go_back_to_it(stand_in, poller):
    await send(stand_in, traces(from_resource(POLLER, span(SPAN_GYM_SANDBOX_START))))
    await send(stand_in, traces(from_resource(GYM, span(SPAN_GYM_SANDBOX_STOP))))
    await poller.wait_for(1)
    assert [one["name"] for _, one in poller.spans] == [SPAN_GYM_SANDBOX_STOP]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_what_the_poller_cannot_take_now_is_sent_again_in_order(stand_in, poller, status):
    poller.answers = [status, status]
    for name in (SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP):
        await send(stand_in, traces(from_resource(GYM, span(name))))
    await poller.wait_for(2)
    assert [one["name"] for _, one in poller.spans] == [SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP]


async def test_what_the_poller_refuses_is_lost_and_said_so(stand_in, poller, caplog):
    poller.answers = [400]
    for name in (SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP):
        await send(stand_in, traces(from_resource(GYM, span(name))))
    await poller.wait_for(1)
    assert [one["name"] for _, one in poller.spans] == [SPAN_GYM_SANDBOX_STOP]
    assert "the poller answered 400: 1 lifecycle spans are lost" in caplog.text


async def test_a_full_queue_is_an_overload_and_nothing_is_joined_twice(tmp_path):
    nobody = "http://127.0.0.1:9"
    async with StandInCollector(poller_endpoint=nobody, joined_file=tmp_path / "joined.jsonl") as stand_in:
        request = traces(from_resource(GYM, span(SPAN_GYM_SANDBOX_START)))
        async with aiohttp.ClientSession() as http:
            for _ in range(1_002):
                async with http.post(f"{stand_in.endpoint}/v1/traces", json=request) as answer:
                    if answer.status != 200:
                        break
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


async def test_the_joined_file_has_one_resource_for_each_rollout_in_a_line(stand_in):
    trace_ids = {rollout: new_trace_id() for rollout in ("7-0", "7-1")}
    for rollout, trace_id in trace_ids.items():
        gym_spans = [span(name, {NEMO_GYM_ROLLOUT_ID: rollout}, trace_id=trace_id) for name in LIFECYCLE]
        await send(stand_in, traces(from_resource(GYM, *gym_spans)))
        keys = {NEMO_RUN_ID: "run-1", NEMO_GYM_ROLLOUT_ID: rollout}
        sample = span(SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, keys, trace_id=trace_id)
        await send(stand_in, traces(from_resource(POLLER, sample)), protobuf=True)
    (line,) = await lines(stand_in)
    assert [keys for keys, _ in line] == [{NEMO_RUN_ID: "run-1", NEMO_GYM_ROLLOUT_ID: rollout} for rollout in trace_ids]
    for (_, spans), trace_id in zip(line, trace_ids.values(), strict=True):
        assert [one["name"] for one in spans] == [*LIFECYCLE, SPAN_GYM_SANDBOX_RESOURCE_SAMPLE]
        assert {one["traceId"] for one in spans} == {trace_id}
        assert plain(spans[0]["attributes"]) == {SERVICE_NAME: GYM[SERVICE_NAME], OTEL_TRACE_ID: trace_id}
        assert plain(spans[-1]["attributes"])[SERVICE_NAME] == SANDGAUGE_POLLER_SERVICE_NAME


async def test_what_knows_no_rollout_is_grouped_by_trace(stand_in):
    await send(stand_in, captured("rollout"))
    (line,) = await lines(stand_in)
    by_rollout = [keys for keys, _ in line if SANDGAUGE_TRACE_GROUP not in keys]
    by_trace = [keys for keys, _ in line if SANDGAUGE_TRACE_GROUP in keys]
    assert [keys[NEMO_GYM_ROLLOUT_ID] for keys in by_rollout] == ["7-0", "7-1"]
    assert len({keys[SANDGAUGE_TRACE_GROUP] for keys in by_trace}) == len(by_trace) == 2


async def test_a_line_is_written_when_its_window_is_over(poller, tmp_path):
    joined_file = tmp_path / "joined.jsonl"
    nobody = "http://127.0.0.1:9"
    async with StandInCollector(poller_endpoint=nobody, joined_file=joined_file, join_window_s=0.01) as stand_in:
        await send(stand_in, traces(from_resource(GYM, span(SPAN_GYM_ROLLOUT))))
        async with asyncio.timeout(60):
            while not joined_file.read_text():  # noqa: ASYNC110 - the file has no event to wait for
                await asyncio.sleep(0.01)
    assert joined_file.read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"no JSON", 400),
        ("application/json", b"[]", 400),
        ("application/json", b'{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}', 400),
        ("application/x-protobuf", b"\xff\xff", 400),
        ("text/plain", b"{}", 415),
        ("application/json", b"{}", 200),
        ("application/x-protobuf", b"", 200),
    ],
)
async def test_what_is_no_trace_request_is_refused(stand_in, content_type, body, status):
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{stand_in.endpoint}/v1/traces", data=body, headers={"Content-Type": content_type}) as answer,
    ):
        assert answer.status == status


async def test_metrics_are_accepted(stand_in):
    assert (await send(stand_in, {"resourceMetrics": []}, signal="metrics"))[0] == 200


async def test_it_says_that_it_is_a_stand_in(stand_in):
    async with aiohttp.ClientSession() as http, http.get(stand_in.endpoint) as answer:
        assert await answer.text() == NOTICE


async def test_a_joined_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path):
    joined_file = tmp_path / "nosuch" / "joined.jsonl"
    with pytest.raises(FileNotFoundError):
        async with StandInCollector(poller_endpoint="http://127.0.0.1:9", joined_file=joined_file):
            pass
