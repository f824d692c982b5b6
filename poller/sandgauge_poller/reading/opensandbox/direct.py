"""Metrics from the daemons themselves, over connections that are never opened unawares and bounded in all they take."""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import Answer, Bounds, NotSentError
from sandgauge_poller.reading.opensandbox.client import MAX_METRICS_BYTES
from sandgauge_poller.reading.opensandbox.endpoints import Target
from sandgauge_poller.reading.opensandbox.session import open_session

KEEPALIVE_S = 75.0
"""Longer than the slowest cadence of a sandbox that is read at all, so that its connection outlives the pause."""

_MOST_RECEIVED = 4 * MAX_METRICS_BYTES
"""Bytes of one answer, heads and all. A body beyond its bound is told as such before that."""


class _BoundedProtocol(ResponseHandler):
    """Gives up a connection that sends more than an answer can be.

    The library takes in interim answers and extensions of chunks without end, and a sandbox that sends nothing else
    would keep the loop, and with it all other readings, busy for a second and more (measured).
    """

    _received = 0

    def set_response_params(self, **params: Any) -> None:
        """Begin with another answer."""
        self._received = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Take in what came, unless more than enough has come before."""
        if self._received > _MOST_RECEIVED and self.transport is not None:
            self.transport.abort()
            return
        self._received += len(data)
        super().data_received(data)


class _NeverUnawares(aiohttp.TCPConnector):
    """Opens a connection only for a task that may: an address may have a new owner by now."""

    def __init__(self, may_connect: Collection[asyncio.Task[Any] | None], **settings: Any) -> None:
        super().__init__(**settings)
        self._may_connect = may_connect
        # A class of its own is what they are made of; there is no public way.
        self._factory = partial(_BoundedProtocol, loop=asyncio.get_running_loop())  # type: ignore[assignment]  # a subclass's

    async def _create_connection(self, *arguments: Any) -> Any:
        if asyncio.current_task() not in self._may_connect:
            raise NotSentError
        return await super()._create_connection(*arguments)


class DirectConnections:
    """Connections to daemons: without the API key, which would end in untrusted code."""

    def __init__(self, tls: ClientTls, *, timeout_s: float, clock: Clock) -> None:
        self._may_connect: set[asyncio.Task[Any] | None] = set()
        connector = partial(_NeverUnawares, self._may_connect)
        self._session = open_session(tls, clock=clock, keepalive_s=KEEPALIVE_S, headers={}, connector=connector)
        self._bounds = Bounds(timeout_s, MAX_METRICS_BYTES)

    async def get_kept(self, target: Target, *, asked: float) -> Answer | None:
        """Read over a connection that is still open; None if there is none, and then nothing was sent."""
        try:
            return await self._get(target, asked)
        except NotSentError:
            return None

    async def get_new(self, target: Target, *, asked: float) -> Answer:
        """Read a target that the control plane has just named."""
        task = asyncio.current_task()
        self._may_connect.add(task)
        try:
            return await self._get(target, asked)
        finally:
            self._may_connect.discard(task)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _get(self, target: Target, asked: float) -> Answer:
        return await self._session.get(target.url, self._bounds, asked=asked, headers=target.headers)
