"""Who is due, and when: a pure queue and the arithmetic of phases, back-off and load.

All times are seconds on a monotonic clock.
"""

import heapq
import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

_MOST_STALE = 1000
"""Entries that were put again or dropped, beyond as many as are pending, before they are cleared away."""

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


EVERY = tuple(Task)
"""All of them; to walk through the class takes ten times as long."""

WHILE_ALIVE = (Task.ALLOCATION, Task.SAMPLE, Task.RESUME, Task.STATUS, Task.LEAK_CHECK)
"""What is due only for a sandbox that is read and, as far as is known, lives."""


class Due(NamedTuple):
    """One task of one sandbox, and when it was due."""

    key: Hashable
    task: Task
    at: float


@dataclass(slots=True)
class Schedule:
    """At most one pending entry for each task of each sandbox; the latest word on it counts.

    Sandboxes that share a phase share their times: the heap holds each time once, beside a list of who is due then.
    """

    _heap: list[float] = field(default_factory=list)
    _at: dict[float, list[tuple[Hashable, Task]]] = field(default_factory=dict)
    _pending: dict[tuple[Hashable, Task], float] = field(default_factory=dict)
    _entries: int = 0
    """Of all lists: those that count, and those that were put again or dropped since."""

    def put(self, key: Hashable, task: Task, at: float) -> None:
        """Set when the task is due, in place of any earlier word."""
        entry = (key, task)
        if self._pending.get(entry) == at:
            return
        self._pending[entry] = at
        who = self._at.get(at)
        if who is None:
            who = self._at[at] = []
            heapq.heappush(self._heap, at)
        who.append(entry)
        self._entries += 1
        if self._entries > _MOST_STALE + 2 * len(self._pending):
            self._clear_stale()

    def at(self, key: Hashable, task: Task) -> float | None:
        """Return when the task is due, or None."""
        return self._pending.get((key, task))

    def drop(self, key: Hashable, *tasks: Task) -> None:
        """Take the named tasks of a sandbox out, or all of them."""
        for task in tasks or EVERY:
            self._pending.pop((key, task), None)

    def pop_due(self, now: float) -> list[Due]:
        """Take out everything that is due, in order."""
        due: list[Due] = []
        pending = self._pending
        while self._heap and self._heap[0] <= now:
            at = heapq.heappop(self._heap)
            who = self._at.pop(at)
            self._entries -= len(who)
            for entry in who:
                if pending.get(entry) == at:
                    del pending[entry]
                    due.append(Due(*entry, at))
        return due

    def next_due(self) -> float | None:
        """Return when something is next due, or None."""
        while self._heap:
            at = self._heap[0]
            if any(self._pending.get(entry) == at for entry in self._at[at]):
                return at
            heapq.heappop(self._heap)
            self._entries -= len(self._at.pop(at))
        return None

    def _clear_stale(self) -> None:
        self._at = {}
        for entry, at in self._pending.items():
            self._at.setdefault(at, []).append(entry)
        self._heap = list(self._at)
        heapq.heapify(self._heap)
        self._entries = len(self._pending)


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
