"""A run in which sandboxes are replaced all the time, and the figures of each of its minutes."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.churn import Churn
from bench.deliveries import Reading
from bench.figures import Minute, Quantiles, cadence_of
from bench.flatness import Held
from bench.lateness import Heart
from bench.processes import FleetProcess, cpu_s, waited_s
from bench.scene import WatchedPoller

_MINUTE_S = 60.0
_TICK_S = 0.5
_MOST_MEASURES = 200
_LOOK_BACK_NS = 60 * 10**9
"""How far back the reading before a minute's first one is looked for."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Counters at the end of a minute, and what was held then."""

    at_ns: int
    cpu_s: float
    waited_s: float
    reads: int
    started: int
    held: Held


@dataclass(slots=True)
class LongRun:
    """A poller below which a share of the sandboxes is replaced each minute."""

    poller: WatchedPoller
    fleet: FleetProcess
    churn: Churn

    def run(self, minutes: float, churn: float) -> tuple[list[Mark], list[Held]]:
        """Replace sandboxes evenly for so long; return marks around each minute, and what was held all along."""
        begin, replaced, seconds = time.monotonic(), 0, minutes * _MINUTE_S
        every_s = max(1.0, seconds / _MOST_MEASURES)
        a_second = churn * self.churn.live / _MINUTE_S
        marks = [self._mark(0.0)]
        held: list[Held] = []
        while (elapsed := time.monotonic() - begin) < seconds:
            if (due := int(a_second * elapsed) - replaced) > 0:
                self.churn.replace(due)
                replaced += due
            if elapsed >= len(held) * every_s:
                held.append(Held.by(self.poller, elapsed))
            if elapsed >= len(marks) * _MINUTE_S:
                marks.append(self._mark(elapsed))
            time.sleep(_TICK_S)
        return [*marks, self._mark(seconds)], held

    def _mark(self, at_s: float) -> Mark:
        pid = self.poller.pid
        return Mark(
            at_ns=time.time_ns(),
            cpu_s=cpu_s(pid),
            waited_s=waited_s(pid),
            reads=self.fleet.counts()["answered"],
            started=self.churn.started,
            held=Held.by(self.poller, at_s),
        )


def minutes_of(
    marks: Sequence[Mark],
    read: Sequence[Reading],
    asked: Sequence[tuple[int, float]],
    heart: Heart,
    interval_s: float,
) -> list[Minute]:
    """Return the figures of each minute; a sandbox's first reading, which is off its phase, tells no cadence."""
    on_phase = list(_without_first(read))
    minutes = []
    for number, (begin, end) in enumerate(pairwise(marks), start=1):
        before_end = [one for one in on_phase if begin.at_ns - _LOOK_BACK_NS <= one.start_ns < end.at_ns]
        within = [one for one in before_end if begin.at_ns <= one.start_ns]
        cpu, reads = end.cpu_s - begin.cpu_s, end.reads - begin.reads
        seconds = (end.at_ns - begin.at_ns) / 1e9
        minutes.append(
            Minute(
                minute=number,
                started=end.started,
                reads=reads,
                cpu_ms_a_read=cpu / reads * 1e3,
                core_share=cpu / seconds,
                waited_share=(end.waited_s - begin.waited_s) / seconds,
                rss_mib=end.held.memory_mib,
                open_files=round(end.held.open_files),
                threads=round(end.held.threads),
                tasks=round(end.held.tasks),
                health_s=Quantiles.of(took_s for asked_ns, took_s in asked if begin.at_ns <= asked_ns < end.at_ns),
                cadence_s=Quantiles.of(cadence_of(before_end, interval_s, since_ns=begin.at_ns).intervals_s),
                accepted_s=Quantiles.of((one.arrived_ns - one.end_ns) / 1e9 for one in within),
                **heart.between(begin.at_ns, end.at_ns).figures(),
            )
        )
    return minutes


def _without_first(read: Iterable[Reading]) -> Iterator[Reading]:
    known: set[str] = set()
    for one in read:
        if one.sandbox_id in known:
            yield one
        known.add(one.sandbox_id)
