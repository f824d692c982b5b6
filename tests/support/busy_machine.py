"""Bounds of time that hold however busy the machine is."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def beside_timer(seconds: float, work: Awaitable[T]) -> tuple[T, float]:
    """Return what the work gave, and how many seconds later it ended than a timer set at the same moment.

    A busy machine is late with both.
    """
    loop = asyncio.get_running_loop()
    rang: asyncio.Future[float] = loop.create_future()
    loop.call_later(seconds, lambda: rang.set_result(loop.time()))
    result = await work
    ended = loop.time()
    return result, ended - await rang
