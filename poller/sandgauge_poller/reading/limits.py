"""How often something may start."""

from collections import deque

from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock


class RateLimit:
    """At most `per_second` starts (rounded down) within any second, in the order of asking; a rate below 1 spaces them.

    A burst as large as the rate passes at once, so that a batch of new sandboxes is not spread out for nothing.
    """

    def __init__(self, per_second: float, clock: Clock = SYSTEM_CLOCK) -> None:
        burst = max(1, int(per_second))
        self._window_s = max(1.0, 1 / per_second)
        self._starts: deque[float] = deque(maxlen=burst)
        self._clock = clock

    def delay(self) -> float:
        """Return how long whoever asks now would wait, in seconds."""
        if len(self._starts) < (self._starts.maxlen or 1):
            return 0.0
        return max(0.0, self._starts[0] + self._window_s - self._clock.monotonic())

    async def wait(self) -> None:
        """Return when the caller may start. A cancelled wait has used its turn."""
        now = self._clock.monotonic()
        start = now + self.delay()
        self._starts.append(start)
        if start > now:
            await self._clock.sleep(start - now)
