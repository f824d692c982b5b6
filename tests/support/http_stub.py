"""Servers on loopback that say what a test tells them to, and remember what they were asked."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aiohttp import web
from multidict import CIMultiDictProxy

from sandgauge_demo.loopback import free_ports

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived; `connection` tells connections of one server apart."""

    path: str
    headers: CIMultiDictProxy[str]
    connection: int


class StubServer:
    """An HTTP server whose answers are set by raw path and query; everything else is a plain 404."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        (self.port,) = free_ports(1)
        self._handlers: dict[str, Handler] = {}
        self._connections: dict[int, object] = {}
        self._arrival = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.seen]

    def on(self, path: str, handler: Handler) -> None:
        self._handlers[path] = handler

    def say(self, path: str, *, status: int = 200, json: object = None, text: str | None = None) -> None:
        async def handler(_request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, text=text) if json is None else web.json_response(json, status=status)

        self.on(path, handler)

    async def asked(self, path: str) -> None:
        """Wait for the next request of a path, or return if there was one."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: path in self.paths)

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        # A handler that would hang ends with its caller.
        runner = web.AppRunner(_application(self._handle), access_log=None, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls)
        await site.start()
        self._runner = runner

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        # Kept, so that no later connection gets the same identity.
        self._connections[id(transport)] = transport
        self.seen.append(Seen(request.path_qs, request.headers, id(transport)))
        async with self._arrival:
            self._arrival.notify_all()
        handler = self._handlers.get(request.path_qs)
        return await handler(request) if handler else web.Response(status=404, text="404 page not found")


class RawServer:
    """A TCP server that reads the head of one request and sends the bytes of a script; a number in it is a pause in s.

    `then_hold` keeps the connection open after the script.
    """

    def __init__(self, *script: bytes | float, then_hold: bool = False) -> None:
        self._script = script
        self._hold = then_hold
        self.connected = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected.set()
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._play(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for step in self._script:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            else:
                await asyncio.sleep(step)
        if self._hold:
            await reader.read()


def _application(handler: Handler) -> web.Application:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    return application
