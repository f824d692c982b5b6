"""The reading before deletion: `POST /v1/sandboxes/{sandbox_id}/final-reading`, by whoever is about to delete it.

200: the reading is in the outbox, and a failed reading is one too. 202, at once: there is none, for the sandbox is
unknown, not read, paused or ended. 400: that is no sandbox id. 401: the token is missing. 503: it is not in the
outbox in time, or too many ask at once. The asker deletes the sandbox whatever the answer is, so there is nothing to
wait for beyond ANSWER_WITHIN_S; a reading that is on its way then is recorded when it comes. Bodies are not looked at.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from http import HTTPStatus

from aiohttp import web

from sandgauge_poller.ingest.bearer_token import BearerToken
from sandgauge_poller.ingest.lifecycle import SANDBOX_ID
from sandgauge_poller.ingest.refusal import JSON, refusal, unauthorized

FINAL_READING_PATH = "/v1/sandboxes/{sandbox_id}/final-reading"

ANSWER_WITHIN_S = 1.9
"""The asker waits two seconds in all, and a reading takes 1.1."""

MOST_AT_ONCE = 1000
"""Requests that wait for a reading: a bound on what they hold, apart from that of spans, which they must not starve."""


class FinalReading(Enum):
    """What became of a reading that was asked for."""

    RECORDED = "recorded"
    """It is committed, be it good or failed."""
    NOT_READ = "not_read"


TakeFinalReading = Callable[[str], Awaitable[FinalReading]]
"""Read the sandbox of that id once more and return after the commit; may be given up at any time."""

_STATUS = {FinalReading.RECORDED: HTTPStatus.OK, FinalReading.NOT_READ: HTTPStatus.ACCEPTED}


class FinalReadingHandler:
    """Answers the requests; `take` is given up when an answer is due."""

    def __init__(self, token: BearerToken, take: TakeFinalReading) -> None:
        self._token = token
        self._take = take
        self._waiting = 0

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request; see the module."""
        if not self._token.is_shown_by(request):
            return unauthorized(JSON)
        sandbox_id = request.match_info["sandbox_id"]
        if not SANDBOX_ID.fullmatch(sandbox_id):
            return refusal(JSON, HTTPStatus.BAD_REQUEST, "the path names no sandbox id")
        if self._waiting >= MOST_AT_ONCE:
            return refusal(JSON, HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once")
        self._waiting += 1
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                outcome = await self._take(sandbox_id)
        except TimeoutError:
            return refusal(JSON, HTTPStatus.SERVICE_UNAVAILABLE, "the reading takes longer than a deletion waits")
        finally:
            self._waiting -= 1
        return web.json_response({"outcome": outcome.value}, status=_STATUS[outcome])
