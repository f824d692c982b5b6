"""What a heartbeat tells of a loop: how late it was in some time, by whom, and where it was then."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Late, Minute, Quantiles
from bench.heartbeat import LATE_S, PERIOD_S, Beat, Collection, Look, beats, collections, looks

LATE_MS = 50
"""Nothing may hold the poller's loop for longer."""

_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_MOST_LATEST = 10


@dataclass(frozen=True, slots=True)
class Heart:
    """Beats of one loop, looks for garbage by its process, and where its threads were while a beat was late."""

    beats: Sequence[Beat]
    collections: Sequence[Collection]
    looks: Sequence[Look]

    @classmethod
    def recorded(cls, folder: Path) -> "Heart":
        """Return what a process has recorded so far."""
        return cls(list(beats(folder)), list(collections(folder)), list(looks(folder)))

    def between(self, begin_ns: int, end_ns: int) -> "Heart":
        """Return what is of this time."""
        return Heart(
            [one for one in self.beats if begin_ns <= one.at_ns < end_ns],
            [one for one in self.collections if begin_ns <= one.at_ns < end_ns],
            [one for one in self.looks if begin_ns <= one.at_ns < end_ns],
        )

    def figures(self) -> dict[str, Any]:
        """Return it as fields of Minute."""
        return {
            "lag_s": Quantiles.of(beat.lag_s for beat in self.beats),
            "held_s": Quantiles.of(beat.held_s for beat in self.beats),
            "held_by_process_s": Quantiles.of(beat.held_by_process_s for beat in self.beats),
            "collected_s": Quantiles.of(collection.took_s for collection in self.collections),
        }

    def histogram(self) -> dict[str, int]:
        """Return how many beats were late by at most so many ms, and by more than those before it."""
        counts = [0] * (len(_BOUNDS_MS) + 1)
        for beat in self.beats:
            counts[bisect_left(_BOUNDS_MS, beat.lag_s * 1000)] += 1
        return dict(zip([*map(str, _BOUNDS_MS), "more"], counts, strict=True))

    def latest(self) -> list[Late]:
        """Return the beats that the process itself made latest, the worst first; none that was in time."""
        late = sorted((beat for beat in self.beats if beat.lag_s >= LATE_S), key=lambda beat: -beat.held_by_process_s)
        return [self._late(beat) for beat in late[:_MOST_LATEST]]

    def _late(self, beat: Beat) -> Late:
        began_ns = beat.at_ns - round((beat.lag_s + PERIOD_S) * 1e9)
        within = [look for look in self.looks if began_ns <= look.at_ns <= beat.at_ns]
        return Late(
            at_s=(beat.at_ns - self.beats[0].at_ns) / 1e9,
            lag_s=beat.lag_s,
            held_s=beat.held_s,
            held_by_process_s=beat.held_by_process_s,
            collected_s=sum(one.took_s for one in self.collections if began_ns <= one.at_ns <= beat.at_ns),
            calls=within[len(within) // 2].threads["loop"] if within else (),
        )


def in_words(counts: Mapping[str, int], minutes: Sequence[Minute]) -> str:
    """Return how often the loop of a run was late, and how long it was held at most, as a sentence."""
    late = sum(count for bound, count in counts.items() if bound == "more" or int(bound) > LATE_MS)
    held, by_process, collected = (
        max((found.max for minute in minutes if (found := getattr(minute, name)) is not None), default=0.0)
        for name in ("held_s", "held_by_process_s", "collected_s")
    )
    return (
        f"Of {sum(counts.values()):,} beats of the loop, one each {PERIOD_S * 1000:.0f} ms, {late:,} were more than"
        f" {LATE_MS} ms late. What the loop's own thread computed in one of them was {held * 1000:.0f} ms at most, what"
        f" the whole process did {by_process * 1000:.0f} ms, and a look for garbage took {collected * 1000:.0f} ms;"
        " the rest of a beat's lateness is the machine's."
    )
