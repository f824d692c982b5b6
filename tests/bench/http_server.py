"""HTTP/1.1 with as little work as it can be done with: a server that must not be the limit of what it measures."""

import asyncio
import re
import signal
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import uvloop

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_BACKLOG = 16_384


class HttpConnection(asyncio.Protocol):
    """One connection: whole requests go to `on_request`, which answers with `answer` at once or later.

    Bodies need a length; a request is not begun before the one ahead of it was handed over, which clients that do not
    pipeline never notice.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to answer."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own are of no common class

    def data_received(self, data: bytes) -> None:
        """Hand over each request that is whole."""
        received = self._received + data if self._received else data
        while (end := received.find(_END_OF_HEAD)) >= 0:
            head = received[:end]
            length = 0 if head.startswith(b"GET ") else _body_length(head)
            body_at = end + len(_END_OF_HEAD)
            if len(received) - body_at < length:
                break
            body, received = received[body_at : body_at + length], received[body_at + length :]
            self.on_request(head, body)
        self._received = received

    def on_request(self, head: bytes, body: bytes) -> None:
        """Take one request; `head` is its lines without the blank one."""
        raise NotImplementedError

    def answer(self, body: bytes, *, status: int = 200, content_type: str = "application/json") -> None:
        """Write an answer, unless the client has gone."""
        if not self.transport.is_closing():
            phrase = HTTPStatus(status).phrase
            head = f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body)


def _body_length(head: bytes) -> int:
    found = _LENGTH.search(head)
    return int(found[1]) if found else 0


def target_of(head: bytes) -> str:
    """Return the path and query of a request."""
    return head.split(b" ", 2)[1].decode()


async def listen(protocol: Callable[[], asyncio.Protocol], *, every_loopback_address: bool = False) -> int:
    """Serve on a free port of 127.0.0.1, or of all 127.0.0.0/8, for as long as the loop runs, and return the port."""
    listener = socket.socket()
    if every_loopback_address:
        # Bound to every address, and to the loopback device alone: no other machine can reach it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    listener.bind(("0.0.0.0" if every_loopback_address else "127.0.0.1", 0))
    await asyncio.get_running_loop().create_server(protocol, sock=listener, backlog=_BACKLOG)
    return int(listener.getsockname()[1])


def serve(protocol: Callable[[], asyncio.Protocol], *, every_loopback_address: bool = False) -> None:
    """Serve until SIGTERM; the first line of standard output is the port."""

    async def until_told() -> None:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        print(await listen(protocol, every_loopback_address=every_loopback_address), flush=True)
        await told.wait()

    uvloop.run(until_told())
