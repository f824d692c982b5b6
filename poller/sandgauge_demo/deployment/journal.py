"""What a simulated deployment was asked: counts, the last requests with their headers, and a way to wait for more."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sandgauge_demo.deployment.faults import Route

_KEPT_REQUESTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One request as it arrived. Header names are in lower case; `at` is in seconds on a monotonic clock."""

    at: float
    route: Route
    sandbox_id: str | None
    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)


class Journal:
    """Requests by route and sandbox, the last 10,000 of them whole.

    `most_in_flight` is the high-water mark of each route; a proxied call counts until its sandbox answered.
    """

    def __init__(self) -> None:
        self._requests: deque[SeenRequest] = deque(maxlen=_KEPT_REQUESTS)
        self._counts: Counter[tuple[Route, str | None]] = Counter()
        self._totals: Counter[Route] = Counter()
        self._in_flight: Counter[Route] = Counter()
        self.most_in_flight: Counter[Route] = Counter()
        self._more = asyncio.Event()

    @contextmanager
    def record(
        self, route: Route, sandbox_id: str | None, *, method: str, path: str, headers: Mapping[str, str]
    ) -> Iterator[None]:
        """Record a request as it arrives, and hold it in flight while the block runs."""
        seen = {name.lower(): value for name, value in headers.items()}
        self._requests.append(
            SeenRequest(at=time.monotonic(), route=route, sandbox_id=sandbox_id, method=method, path=path, headers=seen)
        )
        self._counts[route, sandbox_id] += 1
        self._totals[route] += 1
        self._in_flight[route] += 1
        self.most_in_flight[route] = max(self.most_in_flight[route], self._in_flight[route])
        self._more.set()
        try:
            yield
        finally:
            self._in_flight[route] -= 1

    def count(self, route: Route, sandbox_id: str | None = None) -> int:
        """Return how many requests came for a sandbox, or for a route as a whole."""
        return self._totals[route] if sandbox_id is None else self._counts[route, sandbox_id]

    def requests(self, route: Route | None = None, sandbox_id: str | None = None) -> list[SeenRequest]:
        """Return the last requests, oldest first, of a route and a sandbox where they are named."""
        return [
            seen for seen in self._requests if route in (None, seen.route) and sandbox_id in (None, seen.sandbox_id)
        ]

    async def wait_for(self, count: int, route: Route, sandbox_id: str | None = None, *, timeout_s: float) -> int:
        """Return the count as soon as it is at least `count`, and at the latest after `timeout_s`, whatever it is."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.count(route, sandbox_id) < count:
                    self._more.clear()
                    await self._more.wait()
        return self.count(route, sandbox_id)
