"""Who is due, and when: a pure queue and the arithmetic of phases, back-off and load.

All times are seconds on a monotonic clock.
"""

import heapq
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum

_MOST_STALE = 1000
"""Entries that were put again or dropped, beyond as many as are pending, before the heap is cleared of them."""

LONGEST_BACK_OFF_S = 60.0
"""A sandbox that keeps failing is still asked this often, or at its own interval where that is longer."""


class Task(StrEnum):
    """What can be due for a sandbox."""

    STOP = "stop"
    ADMIT = "admit"
    """Of a deployment: the first reading of whoever is next."""
    ALLOCATION = "allocation"
    SAMPLE = "sample"
    RESUME = "resume"
    STATUS = "status"
    LEAK_CHECK = "leak_check"
    CONFIRM_END = "confirm_end"
    SUMMARY = "summary"


WHILE_ALIVE = (Task.ALLOCATION, Task.SAMPLE, Task.RESUME, Task.STATUS, Task.LEAK_CHECK)
"""What is due only for a sandbox that is read and, as far as is known, lives."""


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
    _pending: dict[tuple[Hashable, Task], tuple[float, int]] = field(default_factory=dict)
    _sequence: int = 0

    def put(self, key: Hashable, task: Task, at: float) -> None:
        """Set when the task is due, in place of any earlier word."""
        self._sequence += 1
        self._pending[key, task] = (at, self._sequence)
        heapq.heappush(self._heap, (at, self._sequence, key, task))
        if len(self._heap) > _MOST_STALE + 2 * len(self._pending):
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)

    def at(self, key: Hashable, task: Task) -> float | None:
        """Return when the task is due, or None."""
        entry = self._pending.get((key, task))
        return entry[0] if entry else None

    def drop(self, key: Hashable, *tasks: Task) -> None:
        """Take the named tasks of a sandbox out, or all of them."""
        for task in tasks or Task:
            self._pending.pop((key, task), None)

    def pop_due(self, now: float) -> list[Due]:
        """Take out everything that is due, in order."""
        due: list[Due] = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._is_current(entry):
                at, _, key, task = entry
                self.drop(key, task)
                due.append(Due(key, task, at))
        return due

    def next_due(self) -> float | None:
        """Return when something is next due, or None."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_current(self, entry: tuple[float, int, Hashable, Task]) -> bool:
        at, sequence, key, task = entry
        return self._pending.get((key, task)) == (at, sequence)


def next_on_phase(after: float, interval: float, own_phase: float) -> float:
    """Return the first time on the sandbox's phase at least half an interval after `after`."""
    earliest = after + interval / 2
    ticks = math.ceil(earliest / interval - own_phase)
    return (ticks + own_phase) * interval


def back_off(interval: float, failures: int, *, longest: float = LONGEST_BACK_OFF_S) -> float:
    """Return the wait after that many failures in a row: doubled each time, up to the longest or the interval."""
    return min(interval * 2.0 ** min(failures, 16), max(longest, interval))


class Load:
    """How many readings a second a deployment's sandboxes ask for."""

    def __init__(self) -> None:
        self._rates: dict[Hashable, float] = {}
        self._total = 0.0

    def __len__(self) -> int:
        return len(self._rates)

    @property
    def reads_per_second(self) -> float:
        """Sum over all sandboxes."""
        return self._total

    def add(self, key: Hashable, interval: float) -> None:
        """Count a sandbox that is to be read each `interval` seconds, in place of any earlier word."""
        self.remove(key)
        self._rates[key] = 1 / interval
        self._total += self._rates[key]

    def remove(self, key: Hashable) -> None:
        """Count a sandbox no longer."""
        rate = self._rates.pop(key, 0.0)
        # Starting afresh with nobody keeps rounding from adding up over a long life.
        self._total = self._total - rate if self._rates else 0.0


@dataclass(slots=True)
class Pacer:
    """Hand out times that are at least `1 / rate` seconds apart: a rate cap for what would come at once."""

    rate: float
    _next: float = -math.inf

    def claim(self, now: float, turns: int = 1) -> float:
        """Return the next free time, and keep so many turns from then on from others."""
        at = max(now, self._next)
        self._next = at + turns / self.rate
        return at
