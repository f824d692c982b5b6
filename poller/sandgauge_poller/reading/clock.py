"""The clocks and the sleep that reading uses, passed in so that a test can be their master."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """`now_ns`: ns since the epoch; `monotonic`: seconds that never go back; `sleep`: waits seconds."""

    now_ns: Callable[[], int] = time.time_ns
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


SYSTEM_CLOCK = Clock()
