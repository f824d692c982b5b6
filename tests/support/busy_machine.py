"""Bounds of time that hold however busy the machine is."""

import asyncio
import threading
from collections.abc import Awaitable
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")

_NAP_S = 0.01


class OwnTime:
    """Time that passes for this process alone: a thread of it counts its naps, and has none while others run."""

    def __init__(self) -> None:
        self._naps = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._nap, name="own-time")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def now_s(self) -> float:
        """Return how much has passed since the context was opened, in s; never more than a clock would say."""
        return self._naps * _NAP_S

    def _nap(self) -> None:
        while not self._ended.wait(_NAP_S):
            self._naps += 1


async def beside_timer(seconds: float, work: Awaitable[T]) -> tuple[T, float]:
    """Return what the work gave, and how much later it ended than a timer set at the same moment, in s.

    A busy machine is late with both, and what it takes in between does not count. Less than nothing is earlier.
    """
    loop = asyncio.get_running_loop()
    rang: asyncio.Future[tuple[float, float]] = loop.create_future()
    with OwnTime() as own:
        loop.call_later(seconds, lambda: rang.set_result((loop.time(), own.now_s())))
        result = await work
        ended_s, own_s = loop.time(), own.now_s()
        rang_s, own_rang_s = await rang
    return result, min(ended_s - rang_s, own_s - own_rang_s) if ended_s >= rang_s else ended_s - rang_s
