"""Whether what a process holds stays the same over the second half of a run.

The first half fills what is bounded: caches, pools, the allocator. What counts is the least that is held at any moment
of the last quarter, against the third: bursts come and go, on a busy machine above all, and a leak stays.
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
    """Of the least that is held of one thing, and what still counts as flat; `mean` and `most` of the second half."""

    name: str
    growth: float
    bound: float
    mean: float
    most: float

    @property
    def is_flat(self) -> bool:
        """Whether it grew by no more."""
        return self.growth <= self.bound


_BOUNDS = {"memory_mib": (2.0, 0.015), "open_files": (12.0, 0.015), "threads": (1.0, 0.0), "tasks": (12.0, 0.05)}
"""Most growth that counts as flat, and the same as a share of the mean, whichever is more: noise of the allocator, and
of how many reads are in flight."""


def growths(held: Sequence[Held]) -> Iterator[Growth]:
    """Yield how everything grew from the third quarter to the last."""
    end_s = held[-1].at_s
    third = [one for one in held if end_s / 2 <= one.at_s < end_s * 3 / 4]
    last = [one for one in held if one.at_s >= end_s * 3 / 4]
    for name, (bound, share) in _BOUNDS.items():
        before, after = ([getattr(one, name) for one in quarter] for quarter in (third, last))
        mean = statistics.fmean(before + after)
        yield Growth(name, min(after) - min(before), max(bound, share * mean), mean, max(before + after))
