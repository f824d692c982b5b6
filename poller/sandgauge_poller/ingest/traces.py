"""Requests with spans: `POST /v1/traces`, answered only after the events are committed.

The Collector retries 429, 502, 503 and 504 and drops the data at any other error, so whatever is not the sender's
own fault is a 503.
"""

import asyncio
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from aiohttp import hdrs, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sandgauge_poller.ingest.bearer_token import BearerToken
from sandgauge_poller.ingest.body import BodyError, Lease, Room, read_body
from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError
from sandgauge_poller.ingest.quarantine import Quarantine
from sandgauge_poller.ingest.refusal import JSON, PROTOBUF, refusal, unauthorized
from sandgauge_poller.ingest.spans import UndecodableError
from sandgauge_poller.ingest.understanding import DECODERS, Understood, understand
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_schemas.names import ConflictKind, SpanOutcome, SpanReason

MOST_REQUESTS_AT_ONCE = 64
"""Requests with spans in work."""

BODIES_AT_ONCE = 4
"""So many bodies of the largest size have room at once; many more of the usual size have."""

SMALL = 64 * 1024
"""A body of so many bytes is understood at once; a larger one by a thread, one at a time, since it takes long."""

_EVENTS_AT_ONCE = 1000
"""Events of one commit: the loop goes on with its readings in between."""

CommitEvents = Callable[[Sequence[LifecycleEvent]], Awaitable[Sequence[SpanOutcome]]]
"""Commit events and say of each, in their order: accepted, repeated, or rejected because the capacity is reached."""


class TracesHandler:
    """Answers the requests; spans are answered once `commit` has returned."""

    def __init__(  # noqa: PLR0913  # its collaborators and its clock are passed in
        self,
        token: BearerToken,
        commit: CommitEvents,
        metrics: SelfMetrics,
        quarantine: Quarantine,
        *,
        max_body_size: int,
        now_ns: Callable[[], int],
    ) -> None:
        self._token = token
        self._commit = commit
        self._metrics = metrics
        self._quarantine = quarantine
        self._max_body_size = max_body_size
        self._now_ns = now_ns
        self._room = Room(BODIES_AT_ONCE * max_body_size)
        self._large = asyncio.Lock()
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
            understood = await self._understand_and_commit(content_type, body)
        except UndecodableError as error:
            self._metrics.spans(SpanOutcome.REJECTED, error.reason, 1)
            return refusal(content_type, error.status, str(error))
        except NotStoredError:  # of which the store itself tells the log, once a minute
            return refusal(content_type, HTTPStatus.SERVICE_UNAVAILABLE, "spans cannot be stored just now")
        except (sqlite3.Error, OSError):  # the store is in trouble, whatever the body
            raise
        except Exception as error:
            if not await self._quarantine.takes(content_type, body, error):
                raise
            self._metrics.spans(SpanOutcome.QUARANTINED, SpanReason.UNFORESEEN_ERROR, 1)
            return _acknowledgement(content_type, Counter())
        return _acknowledgement(content_type, understood.rejected)

    async def _understand_and_commit(self, content_type: str, body: bytes) -> Understood:
        if len(body) <= SMALL:
            understood = understand(content_type, body, self._now_ns())
            await self._commit_events(understood)
            return understood
        async with self._large:
            understood = await self._understand_beside(content_type, body)
            await self._commit_events(understood)
            return understood

    async def _understand_beside(self, content_type: str, body: bytes) -> Understood:
        """Understand a body in a thread, which ends soon after the wait for it: the end of a process waits for it."""
        abandoned = threading.Event()
        try:
            return await asyncio.to_thread(
                understand, content_type, body, self._now_ns(), lambda: not abandoned.is_set()
            )
        finally:
            abandoned.set()

    async def _commit_events(self, understood: Understood) -> None:
        counts = understood.others.copy()
        for at in range(0, len(understood.events), _EVENTS_AT_ONCE):
            part = understood.events[at : at + _EVENTS_AT_ONCE]
            outcomes = await self._commit([event for event, _ in part])
            for (_, reason), outcome in zip(part, outcomes, strict=True):
                counts[outcome, SpanReason.CAPACITY if outcome is SpanOutcome.REJECTED else reason] += 1
        for (outcome, reason), count in counts.items():
            self._metrics.spans(outcome, reason, count)
        for _ in range(understood.contradictory):
            self._metrics.conflict(ConflictKind.ATTRIBUTE)


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
