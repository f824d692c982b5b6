"""An OTLP/HTTP receiver for tests: it keeps what it gets, answers as it is told, and checks every request."""

import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Self

from aiohttp import web
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from sandgauge_demo.loopback import free_ports
from support.conformance import metrics_violations, trace_violations
from support.otlp_proto import SeenPoint, SeenSpan, points_of, spans_of
from support.served_in_thread import ServedInThread

_PROTOBUF = "application/x-protobuf"
_MAX_BODY_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the sink says to one request. The content type is protobuf unless the headers say otherwise."""

    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it came. `body` is unpacked, `time_ns` the sink's clock, `status` what it was answered."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    message: ExportTraceServiceRequest | ExportMetricsServiceRequest
    time_ns: int
    status: int


class OtlpSink(ServedInThread):
    """Serves `/v1/traces` and `/v1/metrics` on loopback, in a thread of its own, while its context is open.

    Requests are kept in the order in which they came, refused ones too; `spans` and `points` show only what was
    accepted. Answers are success unless `script` queues others. Closing it breaks open connections, as the end of a
    real receiver does; another sink on the same `port` then plays its return. Port 0 is any free one. Without `checks`
    requests are not held to the contract, which under load is most of what a sink does. `tls` makes it speak nothing
    else.
    """

    def __init__(self, port: int = 0, *, checks: bool = True, tls: ssl.SSLContext | None = None) -> None:
        super().__init__("otlp-sink")
        self.port = port or free_ports(1)[0]
        """The port that is served; nobody else gets it while a receiver is away."""
        self._checks = checks
        self._tls = tls
        self._changed = threading.Condition()
        self._received: list[Received] = []
        self._script: deque[Answer] = deque()
        self._violations: list[str] = []

    @property
    def endpoint(self) -> str:
        """The base URL, without a path."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def violations(self) -> list[str]:
        """What all requests so far, refused ones too, broke of the telemetry contract."""
        with self._changed:
            return list(self._violations)

    def script(self, *answers: Answer) -> None:
        """Queue answers for the next requests of either signal; after them every answer is success again."""
        with self._changed:
            self._script.extend(answers)

    def requests(self) -> list[Received]:
        """Return every request so far."""
        with self._changed:
            return list(self._received)

    def spans(self, name: str | None = None) -> list[SeenSpan]:
        """Return the accepted spans so far, of one name if it is given. A span that came twice is there twice."""
        messages = [one.message for one in self._accepted()]
        seen = [span for each in messages if isinstance(each, ExportTraceServiceRequest) for span in spans_of(each)]
        return [span for span in seen if name in (None, span.name)]

    def points(self, name: str | None = None) -> list[SeenPoint]:
        """Return the accepted points of gauges and sums so far, of one metric if it is given."""
        messages = [one.message for one in self._accepted()]
        seen = [one for each in messages if isinstance(each, ExportMetricsServiceRequest) for one in points_of(each)]
        return [point for point in seen if name in (None, point.name)]

    def wait_for(self, predicate: Callable[[Self], bool], timeout: float = 60.0) -> None:
        """Return as soon as the predicate of this sink holds; AssertionError when it does not within the seconds.

        The predicate is asked again after each request.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self), timeout):
                names = [span.name for span in self.spans()] + [point.name for point in self.points()]
                raise AssertionError(f"not within {timeout:g} s; {len(self._received)} requests held {names}")

    def _accepted(self) -> list[Received]:
        return [one for one in self.requests() if one.status < HTTPStatus.MULTIPLE_CHOICES]

    async def _serve(self) -> None:
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.router.add_post("/v1/{signal:traces|metrics}", self._post)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
            self._started.set()
            await self._ended.wait()
        finally:
            for connection in runner.server.connections if runner.server else ():
                if connection.transport is not None:
                    connection.transport.abort()  # an orderly end of TLS would wait for the other side
            await runner.cleanup()

    async def _post(self, request: web.Request) -> web.Response:
        if request.content_type != _PROTOBUF:
            self._refuse(f"{request.path}: content type {request.content_type}")
            return web.Response(status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        body = await request.read()
        try:
            answer = self._take(request.path, dict(request.headers), body)
        except DecodeError:
            self._refuse(f"{request.path}: the body is no OTLP protobuf")
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        return web.Response(
            status=answer.status, headers={"Content-Type": _PROTOBUF, **answer.headers}, body=answer.body
        )

    def _refuse(self, violation: str) -> None:
        with self._changed:
            self._violations.append(violation)
            self._changed.notify_all()

    def _take(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Keep one request and return its answer."""
        message: ExportTraceServiceRequest | ExportMetricsServiceRequest
        if path == "/v1/traces":
            message = ExportTraceServiceRequest.FromString(body)
            violations = trace_violations(message) if self._checks else []
            success = ExportTraceServiceResponse().SerializeToString()
        else:
            message = ExportMetricsServiceRequest.FromString(body)
            violations = metrics_violations(message) if self._checks else []
            success = ExportMetricsServiceResponse().SerializeToString()
        with self._changed:
            answer = self._script.popleft() if self._script else Answer(body=success)
            self._violations += violations
            self._received.append(
                Received(
                    path=path,
                    headers=headers,
                    body=body,
                    message=message,
                    time_ns=time.time_ns(),
                    status=answer.status,
                )
            )
            self._changed.notify_all()
        return answer
