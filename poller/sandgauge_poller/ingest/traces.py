"""Requests with spans: `POST /v1/traces`, answered only after the events are committed.

The Collector retries 429, 502, 503 and 504 and drops the data at any other error, so whatever is not the sender's
own fault is a 503.
"""

import json
from collections import Counter
from http import HTTPStatus

from aiohttp import hdrs, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sandgauge_poller.ingest.bearer_token import BearerToken
from sandgauge_poller.ingest.body import BodyError, Lease, Room, read_body
from sandgauge_poller.ingest.events import NotStoredError
from sandgauge_poller.ingest.intake import Intake
from sandgauge_poller.ingest.refusal import JSON, PROTOBUF, refusal, unauthorized
from sandgauge_poller.ingest.spans import UndecodableError
from sandgauge_poller.ingest.understanding import DECODERS
from sandgauge_schemas.names import SpanReason

MOST_REQUESTS_AT_ONCE = 64
"""Requests with spans in work."""

BODIES_AT_ONCE = 4
"""So many bodies of the largest size have room at once; many more of the usual size have."""


class TracesHandler:
    """Answers the requests; spans are answered once the intake has committed them."""

    def __init__(self, token: BearerToken, intake: Intake, *, max_body_size: int) -> None:
        self._token = token
        self._intake = intake
        self._max_body_size = max_body_size
        self._room = Room(BODIES_AT_ONCE * max_body_size)
        self._in_work = 0

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request; see the module."""
        content_type = request.content_type
        if content_type not in DECODERS:
            return refusal(JSON, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {PROTOBUF} or {JSON}")
        if not self._token.is_shown_by(request):
            return unauthorized(content_type)
        if self._in_work >= MOST_REQUESTS_AT_ONCE:
            return refusal(content_type, HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once")
        self._in_work += 1
        try:
            with self._room.lease() as lease:
                return await self._take(request, content_type, lease)
        finally:
            self._in_work -= 1

    async def _take(self, request: web.Request, content_type: str, lease: Lease) -> web.Response:
        encoding = request.headers.get(hdrs.CONTENT_ENCODING, "")
        try:
            body = await read_body(request.content, encoding, self._max_body_size, lease)
        except BodyError as error:
            return refusal(content_type, error.status, str(error))
        try:
            rejected = await self._intake.take(content_type, body)
        except UndecodableError as error:
            return refusal(content_type, error.status, str(error))
        except NotStoredError:  # of which the store itself tells the log, once a minute
            return refusal(content_type, HTTPStatus.SERVICE_UNAVAILABLE, "spans cannot be stored just now")
        return _acknowledgement(content_type, rejected)


def _acknowledgement(content_type: str, rejected: Counter[SpanReason | None]) -> web.Response:
    answer = ExportTraceServiceResponse()
    count = rejected.total()
    if count:
        answer.partial_success.rejected_spans = count
        answer.partial_success.error_message = ", ".join(f"{n} {reason}" for reason, n in rejected.items())
    if content_type == PROTOBUF:
        return web.Response(body=answer.SerializeToString(), content_type=PROTOBUF)
    fields: dict[str, object] = {}
    if count:
        message = answer.partial_success.error_message
        # 64-bit numbers are text in protobuf's JSON.
        fields = {"partialSuccess": {"rejectedSpans": str(count), "errorMessage": message}}
    return web.Response(body=json.dumps(fields).encode(), content_type=JSON)
