"""Metrics from the daemons themselves, over connections that are never opened unawares."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import aiohttp

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import Answer, Bounds
from sandgauge_poller.reading.opensandbox.client import MAX_METRICS_BYTES
from sandgauge_poller.reading.opensandbox.endpoints import Target
from sandgauge_poller.reading.opensandbox.session import open_session

KEEPALIVE_S = 75.0
"""Longer than the slowest cadence of a sandbox that is read at all, so that its connection outlives the pause."""


@dataclass(slots=True)
class _Attempt:
    may_connect: bool
    is_refused: bool = False


_attempt: ContextVar[_Attempt] = ContextVar("attempt")


class _NoKeptConnectionError(aiohttp.ClientConnectionError):
    """There is no connection that is still open."""


class _NeverUnawares(aiohttp.TCPConnector):
    """Opens a connection only for an attempt that may: an address may have a new owner by now."""

    async def _create_connection(self, *arguments: Any) -> Any:
        attempt = _attempt.get()
        if not attempt.may_connect:
            attempt.is_refused = True
            raise _NoKeptConnectionError
        return await super()._create_connection(*arguments)


class DirectConnections:
    """Connections to daemons: without the API key, which would end in untrusted code."""

    def __init__(self, tls: ClientTls, *, timeout_s: float, clock: Clock) -> None:
        self._session = open_session(tls, clock=clock, keepalive_s=KEEPALIVE_S, headers={}, connector=_NeverUnawares)
        self._bounds = Bounds(timeout_s, MAX_METRICS_BYTES)

    async def get_kept(self, target: Target, *, asked: float) -> Answer | None:
        """Read over a connection that is still open; None if there is none, and then nothing was sent."""
        attempt = _Attempt(may_connect=False)
        answer = await self._get(target, attempt, asked)
        return None if attempt.is_refused else answer

    async def get_new(self, target: Target, *, asked: float) -> Answer:
        """Read a target that the control plane has just named."""
        return await self._get(target, _Attempt(may_connect=True), asked)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _get(self, target: Target, attempt: _Attempt, asked: float) -> Answer:
        token = _attempt.set(attempt)
        try:
            return await self._session.get(target.url, self._bounds, asked=asked, headers=dict(target.headers))
        finally:
            _attempt.reset(token)
