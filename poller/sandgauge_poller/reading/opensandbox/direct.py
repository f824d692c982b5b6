"""Metrics from the daemons themselves, over connections that are never opened unawares."""

from dataclasses import dataclass
from types import SimpleNamespace

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
class _Connection:
    may_be_new: bool
    kept: bool = False
    missing: bool = False


class _NoKeptConnection(aiohttp.ClientConnectionError):
    pass


class DirectConnections:
    """Connections to daemons: without the API key, which would end in untrusted code."""

    def __init__(self, tls: ClientTls, *, timeout_s: float, clock: Clock) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_kept)
        trace.on_connection_create_start.append(_refuse_new)
        self._session = open_session(tls, clock=clock, keepalive_s=KEEPALIVE_S, headers={}, trace_configs=[trace])
        self._bounds = Bounds(timeout_s, MAX_METRICS_BYTES)

    async def get_kept(self, target: Target, *, asked: float) -> Answer | None:
        """Read over a connection that is still open; None if there is none, and then nothing was sent."""
        connection = _Connection(may_be_new=False)
        answer = await self._get(target, connection, asked)
        return None if connection.missing else answer

    async def get_new(self, target: Target, *, asked: float) -> Answer:
        """Read a target that the control plane has just named."""
        return await self._get(target, _Connection(may_be_new=True), asked)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _get(self, target: Target, connection: _Connection, asked: float) -> Answer:
        headers = dict(target.headers)
        return await self._session.get(target.url, self._bounds, asked=asked, headers=headers, context=connection)


async def _note_kept(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.kept = True


async def _refuse_new(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _params: aiohttp.TraceConnectionCreateStartParams
) -> None:
    # The library would also reconnect by itself when a kept connection breaks, to an address that may have a new owner.
    connection: _Connection = context.trace_request_ctx
    if not connection.may_be_new:
        connection.missing = not connection.kept
        raise _NoKeptConnection
