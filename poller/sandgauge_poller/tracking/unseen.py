"""Who makes room where there are as many sandboxes as may be: one of which nothing was ever seen, made up or not."""

from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.routing import RouteOutcome

if TYPE_CHECKING:  # the active set is made of this, and not the other way round
    from sandgauge_poller.tracking.active_set import SandboxKey, Tracked

Vouches = Callable[[str | None, StartEvent], bool]
"""Tell of a deployment's sandbox whether another one of its run or trace has answered."""


def vouches_for_none(deployment: str | None, start: StartEvent) -> bool:
    """Know nothing of any run."""
    del deployment, start
    return False


class Rank(IntEnum):
    """How much speaks for a sandbox of which nothing was seen, the least first."""

    DENIED = 0
    """Its control plane has said, twice, that there is none."""
    UNREAD = 1
    """No deployment takes it: nothing will ever be seen of it."""
    STRANGER = 2
    VOUCHED = 3
    """Another sandbox of its run or trace has answered."""


class Unseen:
    """The sandboxes that may have to go, in the order in which they do: by rank, then by age."""

    def __init__(self, vouches: Vouches) -> None:
        self._vouches = vouches
        self._queues: dict[Rank, OrderedDict[SandboxKey, Tracked]] = {rank: OrderedDict() for rank in Rank}

    def rank(self, outcome: RouteOutcome, deployment: str | None, start: StartEvent) -> Rank:
        """Return the rank of a sandbox that has just come."""
        if outcome is not RouteOutcome.MATCHED:
            return Rank.UNREAD
        return Rank.VOUCHED if self._vouches(deployment, start) else Rank.STRANGER

    def add(self, sandbox: "Tracked", rank: Rank) -> None:
        """Take up a sandbox; once something is seen of it, it is passed over and forgotten here."""
        self._queues[rank][sandbox.key] = sandbox

    def discard(self, key: "SandboxKey") -> None:
        """Forget a sandbox that is done with."""
        for queue in self._queues.values():
            queue.pop(key, None)

    def deny(self, sandbox: "Tracked") -> None:
        """Note that a sandbox does not exist; what was seen before counts for more."""
        if not sandbox.progress.is_seen:
            self.discard(sandbox.key)
            self.add(sandbox, Rank.DENIED)

    def take(self, newcomer: Rank) -> "Tracked | None":
        """Take out the sandbox that makes room for a newcomer: the oldest of the lowest rank, and none above its own.

        None where all that are left have been seen or have more that speaks for them.
        """
        for rank, queue in self._queues.items():
            while queue and rank <= newcomer:
                _, sandbox = queue.popitem(last=False)
                if sandbox.progress.is_seen:
                    continue
                start = sandbox.lifecycle.start
                if rank is Rank.STRANGER and start is not None and self._vouches(sandbox.deployment, start):
                    self.add(sandbox, Rank.VOUCHED)
                    continue
                return sandbox
        return None
