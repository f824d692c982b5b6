"""The time over which a process is watched, and the figures that follow from it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from bench.deliveries import Delivery, Reading
from bench.figures import Quantiles, cadence_of
from bench.processes import FleetProcess, cpu_s, open_files, rss_bytes, stored_bytes, thread_cpu_s, waited_s

_QUESTIONS = ("inspect", "sandbox", "endpoint")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    at_ns: int
    cpu_s: float
    waited_s: float
    fleet_cpu_s: float
    counts: Mapping[str, int]
    threads_s: Mapping[str, float]
    stored_bytes: int


@dataclass(slots=True)
class Window:
    """From entering the context to leaving it; `threads` are native ids of the process's threads by name."""

    pid: int
    fleet: FleetProcess
    threads: Mapping[str, int] = field(default_factory=dict)
    rss_bytes: int = 0
    open_files: int = 0
    _begin: _Snapshot | None = None
    _end: _Snapshot | None = None

    def __enter__(self) -> Self:
        self._begin = self._snapshot()
        return self

    def __exit__(self, *_: object) -> None:
        self._end = self._snapshot()
        self.rss_bytes = rss_bytes(self.pid)
        self.open_files = open_files(self.pid)

    def of_the_process(self) -> dict[str, Any]:
        """Return what it cost, as fields of Steady."""
        begin, end = self._ends()
        reads = end.counts["answered"] - begin.counts["answered"]
        cpu, seconds = end.cpu_s - begin.cpu_s, (end.at_ns - begin.at_ns) / 1e9
        return {
            "reads": reads,
            "cpu_ms_a_read": cpu / reads * 1e3,
            "fleet_cpu_ms_a_read": (end.fleet_cpu_s - begin.fleet_cpu_s) / reads * 1e3,
            "core_share": cpu / seconds,
            "waited_share": (end.waited_s - begin.waited_s) / seconds,
            "rss_mib": self.rss_bytes / 2**20,
            "stored_bytes_a_reading": (end.stored_bytes - begin.stored_bytes) / reads,
            "open_files": self.open_files,
            "questions": sum(end.counts.get(kind, 0) - begin.counts.get(kind, 0) for kind in _QUESTIONS),
        }

    def thread_share(self, name: str) -> float:
        """Return the part of the CPU that one thread took."""
        begin, end = self._ends()
        return (end.threads_s[name] - begin.threads_s[name]) / (end.cpu_s - begin.cpu_s)

    def of_the_readings(self, read: Sequence[Reading], interval_s: float) -> dict[str, Any]:
        """Return how punctual they were, as fields of Steady."""
        begin, end = self._ends()
        before_end = (one for one in read if one.start_ns < end.at_ns)
        cadence = cadence_of(before_end, interval_s, since_ns=begin.at_ns)
        accepted = ((one.arrived_ns - one.end_ns) / 1e9 for one in read if begin.at_ns <= one.end_ns < end.at_ns)
        return {
            "cadence_s": Quantiles.of(cadence.intervals_s),
            "missed_share": cadence.missed_share,
            "accepted_s": Quantiles.of(accepted),
        }

    def bytes_a_reading(self, seen: Sequence[Delivery], read: Sequence[Reading]) -> float | None:
        """Return what went to the Collector in this time, everything counted, for each reading that it holds."""
        begin, end = self._ends()
        sent = sum(one.size for one in seen if begin.at_ns <= one.arrived_ns < end.at_ns)
        held = sum(begin.at_ns <= one.arrived_ns < end.at_ns for one in read)
        return sent / held if held else None

    def _snapshot(self) -> _Snapshot:
        return _Snapshot(
            at_ns=time.time_ns(),
            cpu_s=cpu_s(self.pid),
            waited_s=waited_s(self.pid),
            fleet_cpu_s=cpu_s(self.fleet.pid),
            counts=self.fleet.counts(),
            threads_s={name: thread_cpu_s(self.pid, thread_id) for name, thread_id in self.threads.items()},
            stored_bytes=stored_bytes(self.pid),
        )

    def _ends(self) -> tuple[_Snapshot, _Snapshot]:
        if self._begin is None or self._end is None:
            raise RuntimeError("the window is not over")
        return self._begin, self._end
