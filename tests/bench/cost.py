"""What one poller takes at any number of readings a second, by what was measured at some."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Self

from bench.figures import Minute, Steady, Subject
from bench.results import LongResults, Results
from sandgauge_poller.config import Config

LIFE_S = 600
"""How long a sandbox lives, where that matters."""

LIVELY_SHARE = 0.7
"""Of a core: what one poller is to take at most, so that a burst of starts finds room."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a poller takes at so many readings a second: a share of a core, and bytes a second."""

    reads: float
    core_share: float
    sent_bytes: float
    stored_bytes: float


_NOTHING = Load(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the turns, `loads` by the number of readings; memory is that of the largest fleet.

    `life_cpu_ms` is what a sandbox costs from start to end beside its readings.
    """

    loads: tuple[Load, ...]
    life_cpu_ms: float
    sandbox_kb: float
    idle_mib: float

    @classmethod
    def of(cls, results: Results, long: LongResults) -> Self:
        """Take it from what was saved; raises ValueError where a figure is missing."""
        turns = [turn for turn in results.steady if turn.subject is Subject.POLLER]
        sizes = sorted({turn.sandboxes for turn in turns})
        by_size = {size: [turn for turn in turns if turn.sandboxes == size] for size in sizes}
        sandbox_kb = _median(by_size[sizes[-1]], "rss_kb_a_sandbox")
        return cls(
            loads=tuple(_load(same) for same in by_size.values()),
            life_cpu_ms=_life_cpu_ms(long.minutes, _median(by_size.get(long.sandboxes, ()), "cpu_ms_a_read")),
            sandbox_kb=sandbox_kb,
            idle_mib=_median(by_size[sizes[-1]], "rss_mib") - sizes[-1] * sandbox_kb * 1000 / 2**20,
        )

    def at(self, reads: float) -> Load:
        """Return what lies between two measured loads; beyond the largest a reading costs what it costs there."""
        steps = pairwise((_NOTHING, *self.loads))
        lower, upper = next((step for step in steps if reads <= step[1].reads), (_NOTHING, self.loads[-1]))
        part = (reads - lower.reads) / (upper.reads - lower.reads)
        return Load(
            reads,
            lower.core_share + part * (upper.core_share - lower.core_share),
            lower.sent_bytes + part * (upper.sent_bytes - lower.sent_bytes),
            lower.stored_bytes + part * (upper.stored_bytes - lower.stored_bytes),
        )

    def core_share(self, sandboxes: float, interval_s: float) -> float:
        """Return the share of a core that one poller takes, its sandboxes' starts and ends included."""
        return self.at(sandboxes / interval_s).core_share + sandboxes / LIFE_S * self.life_cpu_ms / 1000

    def pollers(self, sandboxes: int, interval_s: float) -> int:
        """Return how many keep each within its share of a core, and within the sandboxes that it may follow."""
        fewest = math.ceil(sandboxes / Config().tracking.max_sandboxes)
        return next(
            number for number in count(fewest) if self.core_share(sandboxes / number, interval_s) <= LIVELY_SHARE
        )


def _load(turns: Sequence[Steady]) -> Load:
    reads = turns[0].sandboxes / turns[0].interval_s
    return Load(
        reads=reads,
        core_share=reads * _median(turns, "cpu_ms_a_read") / 1000,
        sent_bytes=reads * _median(turns, "bytes_a_reading"),
        stored_bytes=reads * _median(turns, "stored_bytes_a_reading"),
    )


def _life_cpu_ms(minutes: Sequence[Minute], reading_cpu_ms: float) -> float:
    """Return what each life took beyond its readings, over all minutes but the first."""
    first, *others = minutes
    all_ms = sum(minute.reads * minute.cpu_ms_a_read for minute in others)
    readings_ms = sum(minute.reads * reading_cpu_ms for minute in others)
    return (all_ms - readings_ms) / (others[-1].started - first.started)


def _median(turns: Sequence[Steady], figure: str) -> float:
    values = [value for turn in turns if (value := getattr(turn, figure)) is not None]
    if not values:
        raise ValueError(f"no turn has {figure}; measure again")
    return float(statistics.median(values))
