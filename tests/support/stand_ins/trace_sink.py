"""A stand-in for Jaeger: takes traces over OTLP/HTTP and answers two questions of Jaeger's query API in its words.

`GET /api/traces/{trace id}`, and `GET /api/traces?service=` with `operation`, `tags` (a JSON object) and `limit`.
"""

import argparse
import asyncio
import base64
import json
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

OTLP_PORT, QUERY_PORT, HEALTH_PORT = 4318, 16686, 13133
MAX_BODY_BYTES = 64 * 1024**2
STORE = Path("/badger/requests")
KIND_OF_VALUE = {"string_value": "string", "bool_value": "bool", "int_value": "int64", "double_value": "float64"}


class Traces:
    """Every span by trace id and span id: one that comes again is still one. It is kept where Jaeger keeps it."""

    def __init__(self) -> None:
        self._spans: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        if STORE.exists():
            for line in STORE.read_text().splitlines():
                self._add(base64.b64decode(line))
        self._store = STORE.open("ab", buffering=0)

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self._store.write(base64.b64encode(body) + b"\n")
        self._add(body)
        return web.Response(content_type="application/x-protobuf")

    def _add(self, body: bytes) -> None:
        content = ExportTraceServiceRequest.FromString(body)
        for resource_spans in content.resource_spans:
            resource = tags(resource_spans.resource.attributes)
            service = next((tag["value"] for tag in resource if tag["key"] == "service.name"), "unknown")
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    shown = shown_span(span) | {"process": {"serviceName": service, "tags": resource}}
                    self._spans[shown["traceID"]][shown["spanID"]] = shown

    async def one(self, request: web.Request) -> web.Response:
        trace_id = request.match_info["trace_id"]
        if trace_id not in self._spans:
            return web.json_response({"data": None, "errors": [{"code": 404, "msg": "trace not found"}]}, status=404)
        return web.json_response({"data": [self._shown(trace_id)]})

    async def find(self, request: web.Request) -> web.Response:
        service, operation = request.query["service"], request.query.get("operation")
        wanted = json.loads(request.query.get("tags", "{}")).items()

        def fits(span: dict[str, Any]) -> bool:
            has = {(tag["key"], str(tag["value"])) for tag in (*span["tags"], *span["process"]["tags"])}
            return (
                span["process"]["serviceName"] == service
                and operation in (None, span["operationName"])
                and all((key, str(value)) in has for key, value in wanted)
            )

        found = [trace_id for trace_id, spans in self._spans.items() if any(map(fits, spans.values()))]
        limit = int(request.query.get("limit", "100"))
        return web.json_response({"data": [self._shown(trace_id) for trace_id in found[-limit:]]})

    def _shown(self, trace_id: str) -> dict[str, Any]:
        spans, processes = [], {}
        for number, span in enumerate(self._spans[trace_id].values()):
            processes[f"p{number}"] = span["process"]
            spans.append(
                {name: value for name, value in span.items() if name != "process"} | {"processID": f"p{number}"}
            )
        return {"traceID": trace_id, "spans": spans, "processes": processes}


def shown_span(span: Any) -> dict[str, Any]:
    trace_id, parent = span.trace_id.hex(), span.parent_span_id.hex()
    return {
        "traceID": trace_id,
        "spanID": span.span_id.hex(),
        "operationName": span.name,
        "references": [{"refType": "CHILD_OF", "traceID": trace_id, "spanID": parent}] if parent else [],
        "startTime": span.start_time_unix_nano // 1000,
        "duration": (span.end_time_unix_nano - span.start_time_unix_nano) // 1000,
        "tags": tags(span.attributes),
    }


def tags(attributes: Any) -> list[dict[str, Any]]:
    shown = []
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        if kind in KIND_OF_VALUE:
            value = getattr(attribute.value, kind)
            shown.append({"key": attribute.key, "type": KIND_OF_VALUE[kind], "value": value})
    return shown


async def well(_request: web.Request) -> web.Response:
    return web.json_response({"status": "StatusOK"})


async def serve() -> None:
    traces = Traces()
    routes = {
        OTLP_PORT: web.post("/v1/traces", traces.take),
        QUERY_PORT: web.get("/api/traces/{trace_id}", traces.one),
        HEALTH_PORT: web.get("/status", well),
    }
    for port, route in routes.items():
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.add_routes([route])
        if port == QUERY_PORT:
            application.add_routes([web.get("/api/traces", traces.find)])
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", port).start()
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    yaml.safe_load(parser.parse_args().config.read_text())
    asyncio.run(serve())
