"""The ingest port: OTLP/HTTP in at `POST /v1/traces`, answered only after the events are committed.

The Collector retries 429, 502, 503 and 504 and drops the data at any other error, so whatever is not the sender's
own fault is a 503.
"""

import json
import logging
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import hdrs, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sandgauge_poller.ingest.bearer_token import BearerToken
from sandgauge_poller.ingest.body import BodyError, read_body
from sandgauge_poller.ingest.events import LifecycleEvent
from sandgauge_poller.ingest.final_reading import FINAL_READING_PATH, FinalReadingHandler, TakeFinalReading
from sandgauge_poller.ingest.lifecycle import Interpreted, SpanReason, interpret
from sandgauge_poller.ingest.otlp_json import decode_json
from sandgauge_poller.ingest.otlp_protobuf import decode_protobuf
from sandgauge_poller.ingest.refusal import JSON, PROTOBUF, refusal, unauthorized
from sandgauge_poller.ingest.spans import Decoded, UndecodableError
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_schemas.names import ConflictKind, SpanOutcome

logger = logging.getLogger(__name__)

_DECODERS: dict[str, Callable[[bytes], Decoded]] = {PROTOBUF: decode_protobuf, JSON: decode_json}

MOST_REQUESTS_AT_ONCE = 64
"""Requests with spans in work; with the body limit it bounds the memory that senders can take."""

CommitEvents = Callable[[Sequence[LifecycleEvent]], Awaitable[Sequence[SpanOutcome]]]
"""Commit events and say of each, in their order: accepted, repeated, or rejected because the capacity is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """Where to listen and what to accept; an empty token asks for none."""

    host: str
    port: int
    max_body_size: int
    bearer_token: str
    tls: ssl.SSLContext | None


class IngestServer:
    """The ingest port; spans are answered once `commit` has returned, a reading before deletion once it is done."""

    def __init__(
        self,
        settings: IngestSettings,
        commit: CommitEvents,
        final_reading: TakeFinalReading,
        metrics: SelfMetrics,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._settings = settings
        self._commit = commit
        self._metrics = metrics
        self._now_ns = now_ns
        self._in_work = 0
        self._token = BearerToken(settings.bearer_token)
        application = web.Application(middlewares=[_answer_faults_with_503])
        application.router.add_post("/v1/traces", self._traces)
        application.router.add_post(FINAL_READING_PATH, FinalReadingHandler(self._token, final_reading).handle)
        # The body is decompressed here, under its limit, and not by the server.
        self._runner = web.AppRunner(application, access_log=None, auto_decompress=False, shutdown_timeout=1.0)

    async def start(self) -> tuple[str, int]:
        """Listen, and return the address; raises OSError where that is impossible."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._settings.host, self._settings.port, ssl_context=self._settings.tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return host, port

    async def stop(self) -> None:
        """Stop listening and let requests in work end."""
        await self._runner.cleanup()

    async def _traces(self, request: web.Request) -> web.Response:
        content_type = request.content_type
        if content_type not in _DECODERS:
            return refusal(JSON, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {PROTOBUF} or {JSON}")
        if not self._token.is_shown_by(request):
            return unauthorized(content_type)
        if self._in_work >= MOST_REQUESTS_AT_ONCE:
            return refusal(content_type, HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once")
        self._in_work += 1
        try:
            return await self._take(request, content_type)
        finally:
            self._in_work -= 1

    async def _take(self, request: web.Request, content_type: str) -> web.Response:
        encoding = request.headers.get(hdrs.CONTENT_ENCODING, "")
        try:
            body = await read_body(request.content, encoding, self._settings.max_body_size)
            decoded = _DECODERS[content_type](body)
        except BodyError as error:
            return refusal(content_type, error.status, str(error))
        except UndecodableError as error:
            self._metrics.spans(SpanOutcome.REJECTED, "undecodable", 1)
            return refusal(content_type, HTTPStatus.BAD_REQUEST, str(error))
        return await self._commit_spans(decoded, content_type)

    async def _commit_spans(self, decoded: Decoded, content_type: str) -> web.Response:
        received_ns = self._now_ns()
        counts: Counter[tuple[SpanOutcome, str]] = Counter()
        for reason, count in decoded.passed_over.items():
            counts[SpanOutcome.IGNORED, reason] += count
        meanings = [interpret(span, received_ns) for span in decoded.spans]
        counts.update((m.outcome, m.reason) for m in meanings if m.event is None)
        events = [(m.event, m.reason) for m in meanings if m.event is not None]
        outcomes = await self._commit([event for event, _ in events]) if events else ()
        for (_, reason), outcome in zip(events, outcomes, strict=True):
            counts[outcome, SpanReason.CAPACITY if outcome is SpanOutcome.REJECTED else reason] += 1
        for (outcome, why), count in counts.items():
            self._metrics.spans(outcome, why or None, count)
        for span in decoded.spans:
            if span.contradictory:
                self._metrics.conflict(ConflictKind.ATTRIBUTE)
        return _acknowledgement(content_type, _rejections(meanings))


@web.middleware
async def _answer_faults_with_503(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception:
        logger.exception("a request could not be taken; its sender is asked to send it again")
        return refusal(request.content_type, HTTPStatus.SERVICE_UNAVAILABLE, "the poller could not take it just now")


def _rejections(meanings: Sequence[Interpreted]) -> Counter[SpanReason]:
    return Counter(meaning.reason for meaning in meanings if meaning.outcome is SpanOutcome.REJECTED)


def _acknowledgement(content_type: str, rejected: Counter[SpanReason]) -> web.Response:
    answer = ExportTraceServiceResponse()
    count = sum(rejected.values())
    if count:
        answer.partial_success.rejected_spans = count
        answer.partial_success.error_message = ", ".join(f"{n} {reason.value}" for reason, n in rejected.items())
    if content_type == PROTOBUF:
        return web.Response(body=answer.SerializeToString(), content_type=PROTOBUF)
    fields: dict[str, object] = {}
    if count:
        message = answer.partial_success.error_message
        # 64-bit numbers are text in protobuf's JSON.
        fields = {"partialSuccess": {"rejectedSpans": str(count), "errorMessage": message}}
    return web.Response(body=json.dumps(fields).encode(), content_type=JSON)
