"""The demo's stand-in beside a real Collector: the same spans in, the same feed and the same joined file out."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sandgauge_demo.collector import JOINED
from sandgauge_demo.stand_in import StandInCollector
from sandgauge_schemas.names import (
    NEMO_GYM_ROLLOUT_ID,
    NEMO_RUN_ID,
    SANDGAUGE_POLLER_SERVICE_NAME,
    SERVICE_NAME,
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
)
from support.otlp_json import GYM_CASES, captured, from_resource, plain, span, traces
from support.real_collector import collector, send
from support.waiting import wait_until

pytestmark = pytest.mark.integration

OF_POLLER = traces(
    from_resource(
        {SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME},
        span(SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, {NEMO_RUN_ID: "run-abc123", NEMO_GYM_ROLLOUT_ID: "7-0"}),
        span(SPAN_GYM_SANDBOX_RESOURCE_SAMPLE),
    )
)
REQUESTS = [*(captured(case) for case in GYM_CASES), OF_POLLER]


async def through_stand_in(joined_file):
    """Return the spans of the feed, in the stand-in's JSON."""
    received = asyncio.Queue()

    async def take(request):
        received.put_nowait(await request.json())
        return web.Response()

    poller = TestServer(web.Application())
    poller.app.router.add_post("/v1/traces", take)
    async with (
        poller,
        StandInCollector(
            poller_endpoint=str(poller.make_url("")).rstrip("/"), joined_file=joined_file, join_window_s=3600
        ) as stand_in,
        aiohttp.ClientSession() as http,
    ):
        for request in REQUESTS:
            async with http.post(f"{stand_in.endpoint}/v1/traces", json=request) as answer:
                assert answer.status == 200
        async with asyncio.timeout(60):
            feeds = [await received.get() for _ in GYM_CASES]
    return [one for feed in feeds for group in feed["resourceSpans"] for one in group["scopeSpans"][0]["spans"]]


def through_collector(poller, directory):
    with collector(directory, JOINED, poller=poller.endpoint) as running:
        assert [send(running, request) for request in REQUESTS] == [200] * len(REQUESTS)
        wait_until(lambda: len(poller.requests()) == len(GYM_CASES), timeout_s=60, what="a feed of every captured run")
    return running.joined_file


def joined(file):
    """Return the groups of the only line, each span reduced to what OTLP says of it: an empty field is no field."""
    (line,) = file.read_text().splitlines()
    return {
        json.dumps(plain(group["resource"]["attributes"]), sort_keys=True): (
            scope["scope"],
            [
                {
                    **{key: value for key, value in one.items() if value not in ("", {}, [])},
                    "attributes": plain(one["attributes"]),
                }
                for one in scope["spans"]
            ],
        )
        for group in json.loads(line)["resourceSpans"]
        for scope in group["scopeSpans"]
    }


def test_the_stand_in_makes_of_spans_what_a_collector_makes(otlp_sink, tmp_path):
    real_file = through_collector(otlp_sink, tmp_path / "collector")
    stand_in_file = tmp_path / "joined.jsonl"
    fed = asyncio.run(through_stand_in(stand_in_file))
    assert sorted(
        (one["traceId"], one["spanId"], one["name"], sorted(plain(one["attributes"]).items())) for one in fed
    ) == sorted((one.trace_id, one.span_id, one.name, sorted(one.attributes.items())) for one in otlp_sink.spans())
    assert joined(stand_in_file) == joined(real_file)
