"""Sandboxes that come and go below a poller, each with a trace, a stop and a rollout span of its own, as Gym's."""

from collections import deque

from bench.processes import FleetProcess
from bench.scene import Sandbox, WatchedPoller
from support.feed import feed, rollout_span, stop_span


class Churn:
    """What lives, oldest first, and how many there have been."""

    def __init__(self, fleet: FleetProcess, poller: WatchedPoller) -> None:
        self._fleet = fleet
        self._poller = poller
        self._live: deque[Sandbox] = deque()
        self.started = 0

    @property
    def live(self) -> int:
        """Sandboxes that are there."""
        return len(self._live)

    def start(self, count: int) -> None:
        """Create so many."""
        sandboxes = [Sandbox() for _ in range(count)]
        self._fleet.create([one.id for one in sandboxes])
        self._poller.introduce(sandboxes)
        self._live.extend(sandboxes)
        self.started += count

    def end(self, count: int) -> None:
        """Delete the oldest so many."""
        ended = [self._live.popleft() for _ in range(count)]
        self._fleet.delete([one.id for one in ended])
        spans = [stop_span(one.id, trace_id=one.trace_id) for one in ended]
        rollouts = [rollout_span(one.trace_id, one.rollout_id) for one in ended]
        feed(self._poller.endpoint, *spans, *rollouts)

    def replace(self, count: int) -> None:
        """Let so many others take the place of the oldest."""
        self.end(count)
        self.start(count)
