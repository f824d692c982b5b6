"""A deployment whose daemons answer byte for byte what a test wrote, directly and through the control plane's proxy.

Everything about the sandboxes is in order but what their daemons say, so whatever goes wrong is the daemons' doing.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from support.served_in_thread import ServedInThread

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Writes one answer, the request's head being read; returning ends the connection."""

_INSPECT = (
    "Container ID:   41477b23ddb3\nStatus:         running\nRunning:        True\n\nResources:\n  PIDs Limit:   256"
)


def response(
    body: bytes = b"", *, status: str = "200 OK", headers: Mapping[str, str] | None = None, length: int | None = None
) -> bytes:
    """Return a whole HTTP answer, the last of its connection; `length` is a Content-Length that is not the body's."""
    lines = {
        "Connection": "close",
        "Content-Length": str(len(body) if length is None else length),
        **(headers or {}),
    }
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return head.encode() + b"\r\n" + body


def says(*parts: bytes | float) -> Script:
    """Send the parts one after the other; a number is a pause in s."""

    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            if isinstance(part, bytes):
                writer.write(part)
                await writer.drain()
            else:
                await asyncio.sleep(part)

    return script


def says_for_ever(head: bytes, part: bytes, pause_s: float) -> Script:
    """Send a part again and again, for as long as the reader stays."""

    async def script(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)

    return script


async def says_nothing(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Keep the connection until the reader gives up."""
    await reader.read()


class HostileDaemons(ServedInThread):
    """The deployment, in a thread of its own, while its context is open; `url` is its control plane's."""

    def __init__(self, daemons: Mapping[str, Script]) -> None:
        self._daemons = dict(daemons)
        self._ports: dict[str, int] = {}
        super().__init__("hostile-daemons")
        self.url = ""

    async def _serve(self) -> None:
        connections: set[asyncio.Task[None]] = set()

        async def listen(handler: Script) -> asyncio.Server:
            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                connections.add(task)
                try:
                    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                        await handler(reader, writer)
                except asyncio.CancelledError:
                    pass  # the test is over; the library would log it
                finally:
                    connections.discard(task)
                    writer.close()

            return await asyncio.start_server(accept, "127.0.0.1", 0)

        servers = [await listen(self._control_plane)]
        self.url = f"http://127.0.0.1:{servers[0].sockets[0].getsockname()[1]}"
        for sandbox_id in self._daemons:
            server = await listen(self._daemon(sandbox_id))
            servers.append(server)
            self._ports[sandbox_id] = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._ended.wait()
        for server in servers:
            server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    def _daemon(self, sandbox_id: str) -> Script:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await self._daemons[sandbox_id](reader, writer)

        return handler

    async def _control_plane(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        sandbox_id, _, rest = path.removeprefix("/v1/sandboxes/").partition("/")
        if rest.startswith("proxy/"):
            await self._daemons[sandbox_id](reader, writer)
            return
        writer.write(self._word_on(sandbox_id, rest))
        await writer.drain()

    def _word_on(self, sandbox_id: str, rest: str) -> bytes:
        if rest.startswith("diagnostics"):
            return response(_INSPECT.encode(), headers={"Content-Type": "text/plain"})
        if rest.startswith("endpoints"):
            return response(json.dumps({"endpoint": f"127.0.0.1:{self._ports[sandbox_id]}"}).encode())
        return response(json.dumps({"id": sandbox_id, "status": {"state": "Running"}}).encode())
