"""A clock that only a test sets forward, so that what is measured by it is exact on the busiest machine."""

import asyncio

from sandgauge_poller.reading.clock import Clock


class HandClock:
    """Stands still at `now_s` until that is changed, or somebody sleeps: their time has passed at once."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.clock = Clock(now_ns=lambda: round(self.now_s * 1e9), monotonic=lambda: self.now_s, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        await asyncio.sleep(0)  # whoever asks at the same moment sleeps from the same moment
        self.now_s = max(self.now_s, until_s)
