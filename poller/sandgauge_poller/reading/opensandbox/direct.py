"""Metrics from the daemons themselves, over connections that are never opened unawares and bounded in all they take."""

import asyncio
import math
from collections import defaultdict

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import HEADERS, Answer, Bounds
from sandgauge_poller.reading.opensandbox.connection import Connection, Origin, connect
from sandgauge_poller.reading.opensandbox.endpoints import Target
from sandgauge_poller.reading.opensandbox.incoming import Incoming
from sandgauge_poller.reading.opensandbox.session import OWN_HEADERS
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_poller.reading.resolver import Resolver
from sandgauge_poller.reading.tls import client_context
from sandgauge_schemas.names import ErrorType

KEEPALIVE_S = 75.0
"""Longer than the slowest cadence of a sandbox that is read at all, so that its connection outlives the pause."""

_PARTS = 15
_SWEEP_S = KEEPALIVE_S / 5 / _PARTS
"""Each time a part of the origins is looked through: all ten thousand would hold the loop for tens of milliseconds."""

_SAME_FOR_ALL = "".join(f"{name}: {value}\r\n" for name, value in {**HEADERS, **OWN_HEADERS}.items())
_OWN_NAMES = {name.lower() for name in OWN_HEADERS}


class DirectConnections:
    """Connections to daemons: without the API key, which would end in untrusted code. Needs a running loop.

    A daemon is asked some thousand times a second over connections that are kept, which is most of what the poller
    does: a client for all purposes takes twice the time for it (docs/performance.md).
    """

    def __init__(self, tls: ClientTls, bounds: Bounds, *, clock: Clock) -> None:
        self._context = client_context(tls)
        self._resolver = Resolver()
        self._bounds = bounds
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._idle: defaultdict[Origin, list[Connection]] = defaultdict(list)
        self._unswept: list[Origin] = []
        self._part = 0
        self._sweep = self._loop.call_later(_SWEEP_S, self._drop_idle)
        self._is_closed = False

    async def get_kept(self, target: Target, *, asked: float) -> Answer | None:
        """Read over a connection that is still open; None if there is none, and then nothing was sent.

        `asked`, in monotonic seconds, is when the question came up.
        """
        connection = self._take_kept(target.origin)
        return None if connection is None else await self._get(target, connection, asked)

    async def get_new(self, target: Target, *, asked: float) -> Answer:
        """Read a target that the control plane has just named."""
        return await self._get(target, self._take_kept(target.origin), asked)

    async def close(self) -> None:
        """Close the connections; one that is in use closes after it."""
        self._is_closed = True
        self._sweep.cancel()
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    async def _get(self, target: Target, connection: Connection | None, asked: float) -> Answer:
        began, start_ns = self._clock.monotonic(), self._clock.now_ns()
        incoming = Incoming(self._bounds.max_bytes)
        try:
            async with asyncio.timeout(self._bounds.timeout_s):
                if connection is None:
                    connection = await connect(target.origin, self._context, self._resolver)
                await connection.exchange(_request(target), incoming)
        except TimeoutError:
            incoming.settle(ErrorType.TIMEOUT)
        except OSError:
            incoming.settle(ErrorType.CONNECTION)
        finally:
            if connection is not None:
                self._keep(target.origin, connection, incoming)
        window = ReadWindow(start_ns, start_ns + int((self._clock.monotonic() - began) * 1e9), began - asked)
        return Answer(window=window, error_type=incoming.failure, status=incoming.status, body=incoming.body)

    def _take_kept(self, origin: Origin) -> Connection | None:
        connections = self._idle.get(origin)
        while connections:
            connection = connections.pop()
            if connection.is_open:
                return connection
        return None

    def _keep(self, origin: Origin, connection: Connection, incoming: Incoming) -> None:
        if incoming.leaves_connection_open and not self._is_closed:
            connection.idle_since = self._loop.time()
            self._idle[origin].append(connection)
        else:
            connection.abort()

    def _drop_idle(self) -> None:
        """Close what has been idle for long, and forget what the other side has closed: of the next origins in turn."""
        if not self._unswept:
            self._unswept = list(self._idle)
            self._part = math.ceil(len(self._unswept) / _PARTS)
        part, self._unswept = self._unswept[: self._part], self._unswept[self._part :]
        too_long = self._loop.time() - KEEPALIVE_S
        for origin in part:
            connections = self._idle.get(origin, [])
            for connection in connections:
                if connection.idle_since <= too_long:
                    connection.abort()
            connections[:] = [one for one in connections if one.is_open]
            if not connections:
                self._idle.pop(origin, None)
        self._sweep = self._loop.call_later(_SWEEP_S, self._drop_idle)


def _request(target: Target) -> bytes:
    """Return the bytes of a GET; the endpoint's answer was read strictly, so that nothing in them can end a line."""
    own = "".join(f"{name}: {value}\r\n" for name, value in target.headers if name.lower() not in _OWN_NAMES)
    return f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n{_SAME_FOR_ALL}{own}\r\n".encode("ascii")
