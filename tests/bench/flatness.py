"""Whether what a process holds stays the same: a straight line through the second half of a run.

The first half fills what is bounded: caches, pools, the allocator.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.processes import open_files, rss_bytes
from bench.scene import WatchedPoller


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a poller's process holds at one moment of a run."""

    at_s: float
    memory_mib: float
    open_files: float
    threads: float
    tasks: float

    @classmethod
    def by(cls, poller: WatchedPoller, at_s: float) -> "Held":
        """Return it as it is now."""
        counts = poller.counts()
        return cls(
            at_s=at_s,
            memory_mib=rss_bytes(poller.pid) / 2**20,
            open_files=open_files(poller.pid),
            threads=len(counts["threads"]),
            tasks=counts["tasks"],
        )


@dataclass(frozen=True, slots=True)
class Growth:
    """Of one thing over the second half of a run, and what still counts as flat."""

    name: str
    growth: float
    bound: float
    mean: float
    most: float

    @property
    def is_flat(self) -> bool:
        """Whether it grew by no more."""
        return self.growth <= self.bound


_BOUNDS = {"memory_mib": (4.0, 0.03), "open_files": (25.0, 0.03), "threads": (1.0, 0.0), "tasks": (25.0, 0.1)}
"""Most growth that counts as flat, and the same as a share of the mean, whichever is more: noise of the allocator, and
of how many reads are in flight."""


def growths(held: Sequence[Held]) -> Iterator[Growth]:
    """Yield how everything grew over the second half."""
    half = [one for one in held if one.at_s >= held[-1].at_s / 2]
    times = [one.at_s for one in half]
    for name, (bound, share) in _BOUNDS.items():
        values = [getattr(one, name) for one in half]
        slope, mean = statistics.linear_regression(times, values).slope, statistics.fmean(values)
        yield Growth(name, slope * (times[-1] - times[0]), max(bound, share * mean), mean, max(values))
