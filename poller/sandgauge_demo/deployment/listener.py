"""One listening port on loopback whose number is known at once, before the event loop has served it."""

import asyncio
import socket
from collections.abc import Callable

_BACKLOG = 256


class Listener:
    """A port that is bound when this returns; connections wait in the backlog until the loop accepts them."""

    def __init__(self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int = 0) -> None:
        self._socket = socket.create_server((host, port), backlog=_BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self.is_open = True
        """Whether new connections are accepted."""
        self._loop = asyncio.get_running_loop()
        serving = self._loop.create_server(protocol_factory, sock=self._socket, backlog=_BACKLOG)
        self._server = self._loop.create_task(serving)

    def close(self) -> None:
        """Refuse new connections from now on; those that are open stay open. A second call does nothing."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._socket)
            # A connection that was accepted just now begins in the next turn, and is never closed without its server.
            self._loop.call_soon(self._stop)

    def _stop(self) -> None:
        if self._server.done():
            self._server.result().close()
        else:
            self._server.cancel()
            self._loop.remove_reader(self._socket)
            self._socket.close()
