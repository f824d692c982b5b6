"""The ingest port: lifecycle spans by OTLP/HTTP, and readings before deletion."""

import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from sandgauge_poller.ingest.bearer_token import BearerToken
from sandgauge_poller.ingest.final_reading import FINAL_READING_PATH, FinalReadingHandler, TakeFinalReading
from sandgauge_poller.ingest.intake import Intake
from sandgauge_poller.ingest.refusal import refusal
from sandgauge_poller.ingest.traces import TracesHandler

logger = logging.getLogger(__name__)

IDLE_S = 30.0
"""How long a connection may stay without a whole head of a request; after it senders connect anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """Where to listen and what to accept; an empty token asks for none."""

    host: str
    port: int
    max_body_size: int
    bearer_token: str
    tls: ssl.SSLContext | None


class IngestServer:
    """The ingest port; see its handlers for when they answer what."""

    def __init__(self, settings: IngestSettings, intake: Intake, final_reading: TakeFinalReading) -> None:
        self._settings = settings
        token = BearerToken(settings.bearer_token)
        traces = TracesHandler(token, intake, max_body_size=settings.max_body_size)
        application = web.Application(middlewares=[_answer_faults_with_503])
        application.router.add_post("/v1/traces", traces.handle)
        application.router.add_post(FINAL_READING_PATH, FinalReadingHandler(token, final_reading).handle)
        # The body is decompressed by the handler, under its limit, and not by the server.
        self._runner = web.AppRunner(
            application, access_log=None, auto_decompress=False, shutdown_timeout=0.5, keepalive_timeout=IDLE_S
        )

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
