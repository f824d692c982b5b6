"""HTTP from within another process's network namespace, where its loopback is the loopback."""

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import requests

from support.direct_session import direct_session

CLONE_NEWNET = 0x40000000


class InsideNetwork:
    """Requests made by one thread that has joined the network of a process; a context manager that ends the thread."""

    def __init__(self, process_id: int) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, initializer=join_network, initargs=(process_id,))
        self._session = direct_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.close()
        self._thread.shutdown()

    def request(self, method: str, url: str, **named: Any) -> requests.Response:
        """Do as requests does, within ten seconds if nothing else is said."""
        return self._thread.submit(self._session.request, method, url, **{"timeout": 60, **named}).result()


def join_network(process_id: int) -> None:
    """Move the calling thread alone into the network namespace of a process."""
    namespace = os.open(f"/proc/{process_id}/ns/net", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(namespace)
