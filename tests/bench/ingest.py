"""What taking spans in costs: floods of unrelated and of lifecycle spans, and requests answered after a commit."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.figures import Flood, Quantiles, Requests
from bench.processes import cores, cpu_s, on_core
from bench.scene import Sandbox, poller, scene
from bench.sender import request, send_all
from sandgauge_schemas import names
from support.feed import GYM
from support.otlp_json import from_resource, span, traces

ENCODINGS = ("protobuf", "json")
_SPANS_A_REQUEST = 500
_FLOOD_CONNECTIONS = 4
_CONNECTIONS = 32
_UNREAD = {names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: 0.0}
"""Sandboxes that are followed and not read: nothing but the taking in is measured."""


def measure_floods(spans: int) -> Iterator[Flood]:
    """Send so many spans of each kind and encoding to one poller, and yield what came of it."""
    with _idle_poller(2 * spans) as (endpoint, pid):
        for what, make in (("unrelated", _unrelated), ("lifecycle", _lifecycle)):
            for encoding in ENCODINGS:
                requests = [
                    request(endpoint, _export([make() for _ in range(_SPANS_A_REQUEST)]), encoding)
                    for _ in range(spans // _SPANS_A_REQUEST)
                ]
                cpu = cpu_s(pid)
                sent = send_all(endpoint, requests, _FLOOD_CONNECTIONS)
                count = len(requests) * _SPANS_A_REQUEST
                yield Flood(
                    what=what,
                    encoding=encoding,
                    spans=count,
                    spans_a_second=count / sent.seconds,
                    cpu_us_a_span=(cpu_s(pid) - cpu) / count * 1e6,
                )


def measure_requests(count: int) -> Requests:
    """Send so many start spans, each in a request of its own."""
    with _idle_poller(count) as (endpoint, pid):
        requests = [request(endpoint, _export([_lifecycle()]), "protobuf") for _ in range(count)]
        cpu = cpu_s(pid)
        sent = send_all(endpoint, requests, _CONNECTIONS)
        return Requests(
            connections=_CONNECTIONS,
            requests=count,
            requests_a_second=count / sent.seconds,
            answer_s=Quantiles.of(sent.answers_s),
            cpu_ms_a_request=(cpu_s(pid) - cpu) / count * 1e3,
        )


@contextmanager
def _idle_poller(sandboxes: int) -> Iterator[tuple[str, int]]:
    """Run a poller that can follow so many sandboxes; the sender is on the other core. Gives its port and process."""
    with scene(10.0) as at, poller(at, tracking={"max_sandboxes": max(1, sandboxes)}) as running, on_core(cores()[1]):
        yield running.endpoint, running.pid


def _export(spans: list[dict[str, Any]]) -> dict[str, Any]:
    return traces(from_resource(GYM, *spans))


def _lifecycle() -> dict[str, Any]:
    return Sandbox().start_span(**_UNREAD)


def _unrelated() -> dict[str, Any]:
    """Return a span as an instrumented HTTP client makes them."""
    number = time.monotonic_ns()
    return span(
        "POST",
        {
            "http.request.method": "POST",
            "http.response.status_code": 200,
            "url.full": f"http://model.example:8000/v1/chat/completions?request={number}",
            "server.address": "model.example",
            "server.port": 8000,
            "network.protocol.version": "1.1",
            "user_agent.original": "python/3.13",
            "thread.id": number % 100_000,
            "thread.name": "MainThread",
            "code.function.name": "generate",
            "gen_ai.request.model": "example-8b",
            "gen_ai.usage.input_tokens": number % 4096,
            "gen_ai.usage.output_tokens": number % 512,
            "gen_ai.response.id": os.urandom(16).hex(),
            "gen_ai.request.temperature": 0.7,
        },
    )
