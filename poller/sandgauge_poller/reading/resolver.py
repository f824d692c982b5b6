"""Names looked up in threads that nobody waits for."""

import asyncio
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from aiohappyeyeballs import AddrInfoType

_AT_ONCE = 8

_Addresses = Sequence[AddrInfoType]


class Resolver:
    """Looks names up, each once at a time for all who ask meanwhile.

    The system's own cannot be stopped, and takes ten seconds and more for a name whose servers are silent. In the few
    threads of the event loop such lookups would hold up all other names, and the end of the process.
    """

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._asked: dict[tuple[str, int], asyncio.Task[_Addresses]] = {}

    async def resolve(self, host: str, port: int) -> _Addresses:
        """Return where a host is; an address needs no looking up.

        Raises:
            OSError: There is no such host.

        """
        try:
            return _look_up(host, port, socket.AI_NUMERICHOST)
        except socket.gaierror:
            return await asyncio.shield(self._asked.get((host, port)) or self._ask(host, port))

    def _ask(self, host: str, port: int) -> asyncio.Task[_Addresses]:
        task = self._asked[host, port] = asyncio.create_task(self._in_turn(host, port))
        task.add_done_callback(partial(self._forget, (host, port)))
        return task

    async def _in_turn(self, host: str, port: int) -> _Addresses:
        async with self._turns:
            return await asyncio.wrap_future(_start(host, port))

    def _forget(self, asked: tuple[str, int], task: asyncio.Task[_Addresses]) -> None:
        del self._asked[asked]
        if not task.cancelled():
            task.exception()  # those who asked may have given up


def _start(host: str, port: int) -> Future[_Addresses]:
    found: Future[_Addresses] = Future()
    found.set_running_or_notify_cancel()

    def look_up() -> None:
        try:
            found.set_result(_look_up(host, port, socket.AI_ADDRCONFIG))
        except Exception as error:  # noqa: BLE001  # it is raised where it is waited for
            found.set_exception(error)

    threading.Thread(target=look_up, name="sandgauge-resolver", daemon=True).start()
    return found


def _look_up(host: str, port: int, flags: int) -> _Addresses:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags | socket.AI_NUMERICSERV)
