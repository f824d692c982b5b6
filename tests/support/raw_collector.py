"""A Collector that answers byte for byte what a test wrote, for answers that no HTTP server would give."""

import asyncio
import re
from contextlib import suppress

from support.hostile_daemons import Script, response, says
from support.served_in_thread import ServedInThread

SUCCESS = says(response())
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class RawCollector(ServedInThread):
    """Meets each request with the next script, and with success after the last; one request a connection.

    A script runs once the whole request is read.
    """

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        super().__init__("raw-collector")
        self.requests = 0
        self.endpoint = ""

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._started.set()
        await self._ended.wait()
        server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                self.requests += 1
                script = self._scripts.pop(0) if self._scripts else SUCCESS
                await script(reader, writer)
        except asyncio.CancelledError:
            pass  # the test is over; the library would log it
        finally:
            writer.close()
