"""Connections whose answers are bounded as a whole: the library bounds each wait for bytes, so a drip is endless."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection


class BoundedAdapter(HTTPAdapter):
    """An adapter whose read timeout also bounds the time from the last byte sent to the last byte of the head."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of bounded connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


class _BoundedHttpConnection(HTTPConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # the library's own type, under another name
        with _cut_off(self.sock, self.timeout):
            return super().getresponse()


class _BoundedHttpsConnection(HTTPSConnection):
    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # the same
        with _cut_off(self.sock, self.timeout):
            return super().getresponse()


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _BoundedHttpConnection


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _BoundedHttpsConnection


@contextmanager
def _cut_off(sock: socket.socket | None, timeout_s: Any) -> Iterator[None]:
    """End what is read from the socket after so many seconds, and say that it was for that."""
    if sock is None or not isinstance(timeout_s, int | float):
        yield
        return
    is_late = threading.Event()

    def cut() -> None:
        is_late.set()
        with suppress(OSError):  # closed meanwhile
            # Of the socket below TLS, whose state belongs to the thread that reads.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if is_late.is_set():  # without an error, too: the library takes a head that was cut off for a whole one
            raise TimeoutError("the answer did not end")
