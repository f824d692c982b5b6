"""Who is due, and when: a pure queue and the arithmetic of phases, back-off and stretched intervals.

All times are seconds on a monotonic clock.
"""

import hashlib
import heapq
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum

LONGEST_BACK_OFF_S = 60.0
"""A sandbox that keeps failing is still asked this often, or at its own interval where that is longer."""


class Task(Enum):
    """What can be due for a sandbox."""

    ALLOCATION = "allocation"
    SAMPLE = "sample"
    STATUS = "status"
    LEAK_CHECK = "leak_check"
    CONFIRM_END = "confirm_end"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Due:
    """One task of one sandbox, and when it was due."""

    key: Hashable
    task: Task
    at: float


@dataclass(slots=True)
class Schedule:
    """At most one pending entry for each task of each sandbox; the latest word on it counts."""

    _heap: list[tuple[float, int, Hashable, Task]] = field(default_factory=list)
    _pending: dict[Hashable, dict[Task, tuple[float, int]]] = field(default_factory=dict)
    _sequence: int = 0

    def put(self, key: Hashable, task: Task, at: float) -> None:
        """Set when the task is due, in place of any earlier word."""
        self._sequence += 1
        self._pending.setdefault(key, {})[task] = (at, self._sequence)
        heapq.heappush(self._heap, (at, self._sequence, key, task))

    def at(self, key: Hashable, task: Task) -> float | None:
        """Return when the task is due, or None."""
        entry = self._pending.get(key, {}).get(task)
        return entry[0] if entry else None

    def drop(self, key: Hashable, *tasks: Task) -> None:
        """Take the named tasks of a sandbox out, or all of them."""
        if not tasks:
            self._pending.pop(key, None)
            return
        pending = self._pending.get(key, {})
        for task in tasks:
            pending.pop(task, None)

    def pop_due(self, now: float) -> list[Due]:
        """Take out everything that is due, in order."""
        due: list[Due] = []
        while self._heap and self._heap[0][0] <= now:
            at, sequence, key, task = heapq.heappop(self._heap)
            if self._is_current(key, task, sequence):
                self.drop(key, task)
                due.append(Due(key, task, at))
        return due

    def next_due(self) -> float | None:
        """Return when something is next due, or None."""
        while self._heap:
            at, sequence, key, task = self._heap[0]
            if self._is_current(key, task, sequence):
                return at
            heapq.heappop(self._heap)
        return None

    def _is_current(self, key: Hashable, task: Task, sequence: int) -> bool:
        entry = self._pending.get(key, {}).get(task)
        return entry is not None and entry[1] == sequence


def phase(sandbox_id: str) -> float:
    """Return the sandbox's own place within an interval, 0 to below 1: a hash of its id spreads a fleet evenly."""
    digest = hashlib.blake2b(sandbox_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def next_on_phase(after: float, interval: float, own_phase: float) -> float:
    """Return the first time on the sandbox's phase at least half an interval after `after`."""
    earliest = after + interval / 2
    ticks = math.ceil(earliest / interval - own_phase)
    return (ticks + own_phase) * interval


def skipped_ticks(due: float, now: float, interval: float) -> int:
    """Return how many whole intervals have passed since `due`, so that an overdue read never starts twice."""
    return max(0, math.floor((now - due) / interval))


def back_off(interval: float, failures: int) -> float:
    """Return the wait after that many failures in a row: doubled each time, up to a minute or the interval."""
    return min(math.ldexp(interval, min(failures, 16)), max(LONGEST_BACK_OFF_S, interval))


def stretched(interval: float, sandboxes: int, slots: int, seconds_a_read: float) -> float:
    """Return the interval at which `slots` reads at a time carry all sandboxes, if that is longer than asked."""
    return max(interval, sandboxes * seconds_a_read / slots)


@dataclass(slots=True)
class Pacer:
    """Hand out times that are at least `1 / rate` seconds apart: a rate cap for what would come at once."""

    rate: float
    _next: float = -math.inf

    def claim(self, now: float) -> float:
        """Return the next free time."""
        at = max(now, self._next)
        self._next = at + 1 / self.rate
        return at
