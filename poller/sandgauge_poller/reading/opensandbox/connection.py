"""A connection to a daemon, over which one question goes after the other."""

import asyncio
import ssl
from typing import NamedTuple, cast

import aiohappyeyeballs

from sandgauge_poller.reading.opensandbox.incoming import Incoming
from sandgauge_poller.reading.resolver import Resolver
from sandgauge_schemas.names import ErrorType

_HEAD_START_S = 0.25
"""What each address of a name has before the next is tried beside it, as RFC 8305 advises."""


class Origin(NamedTuple):
    """Where a connection leads: a host in its one spelling, and a port."""

    is_tls: bool
    host: str
    port: int


class Connection(asyncio.Protocol):
    """One connection; made by `connect`."""

    __slots__ = ("_incoming", "_spoke_unasked", "_transport", "_waiter", "idle_since")

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._incoming: Incoming | None = None
        self._spoke_unasked = False
        self._waiter: asyncio.Future[None] | None = None
        self.idle_since = 0.0
        """Since when nobody asks anything, in seconds of the loop's clock."""

    @property
    def is_open(self) -> bool:
        """Whether a question may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, request: bytes, incoming: Incoming) -> None:
        """Send a request and return once its answer is settled; who gives up before that aborts the connection."""
        if self._spoke_unasked:
            incoming.settle(ErrorType.UNRECOGNIZED_FORMAT)  # as if it had waited for the question
            return
        if self._transport is None:
            incoming.end(in_order=False)
            return
        self._incoming = incoming
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            await self._waiter
        finally:
            self._incoming = self._waiter = None

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from now on, with nobody but the host.

        Raises:
            OSError: It is not whom its certificate should name, or speaks no TLS.

        """
        tcp = self._transport
        if tcp is None or tcp.is_closing():
            raise ConnectionResetError
        try:
            # None if it was lost in the very moment in which all was well.
            self._transport = await asyncio.get_running_loop().start_tls(tcp, self, context, server_hostname=host)
        except BaseException:
            tcp.abort()  # the loop would say farewell first, or finish the handshake
            raise

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in what came; what nobody asked for ends the connection."""
        if self._incoming is None:
            self._spoke_unasked = True
            self.abort()
        elif self._incoming.take(data):
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of whoever waits."""
        self._transport = None
        if self._incoming is not None:
            self._incoming.end(in_order=exc is None)
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def connect(origin: Origin, context: ssl.SSLContext, resolver: Resolver) -> Connection:
    """Open a connection, to whichever address of the host answers first.

    Raises:
        OSError: There is no such host, nobody listens, or it is not whom its certificate should name.

    """
    addresses = await resolver.resolve(origin.host, origin.port)
    tcp = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_HEAD_START_S)
    try:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, sock=tcp)
    except BaseException:
        tcp.close()
        raise
    if origin.is_tls:
        await connection.start_tls(context, origin.host)
    return connection
