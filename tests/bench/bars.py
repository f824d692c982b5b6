"""What the poller is held to, and what was measured beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.figures import Steady, Subject
from bench.medians import grouped, median
from bench.results import Results

_AT = 5000
"""Sandboxes at which cadence, the alternative and hanging daemons are judged: 500 readings a second."""
_MOST = 10_000
"""Those at which cost, memory and delays are."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bound; `measured` is in the same unit, None where it was not."""

    what: str
    bound: float
    measured: float | None
    form: str = "{:.2f}"
    at_least: bool = False

    @property
    def is_met(self) -> bool | None:
        """Whether it is kept; None where nothing was measured."""
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


def bars(results: Results) -> Iterator[Bar]:
    """Yield all that these results tell of."""
    groups = grouped(results.steady)
    most, at = groups.get((_MOST, Subject.POLLER), []), groups.get((_AT, Subject.POLLER), [])
    hanging = [turn for turn in results.hanging if turn.sandboxes == _AT]
    yield Bar("CPU a reading, 10,000 sandboxes, times the floor", 2.0, _ratio(groups, _MOST, Subject.FLOOR))
    yield Bar("CPU a reading, 5,000 sandboxes, times the alternative", 1 / 3, _ratio(groups, _AT, Subject.ALTERNATIVE))
    yield Bar("cadence p99 at 5,000 sandboxes, s", 10.5, median(at, "cadence_s.p99"))
    yield Bar("ticks missed at 5,000 sandboxes", 0.001, median(at, "missed_share"), "{:.2%}")
    yield Bar("the same cadence where a fifth never answers, s", 10.5, median(hanging, "cadence_s.p99"))
    yield Bar("longest reading of one that never answers, s", 2.2, median(hanging, "hang_s.max"))
    yield Bar("memory a sandbox, of 10,000, kB", 20.0, median(most, "rss_kb_a_sandbox"), "{:.1f}")
    yield Bar("start span sent to first sample delivered, most, s", 2.5, median(most, "first_sample_s.max"))
    yield Bar("reading to accepted, p99, s", 2.0, median(most, "accepted_s.p99"))
    rate = median(results.requests, "requests_a_second")
    yield Bar("lifecycle requests a second", 300.0, rate, "{:,.0f}", at_least=True)


def _ratio(groups: dict[tuple[int, Subject], list[Steady]], sandboxes: int, other: Subject) -> float | None:
    costs = [_cost(groups.get((sandboxes, subject), ())) for subject in (Subject.POLLER, other)]
    return costs[0] / costs[1] if costs[0] and costs[1] else None


def _cost(turns: Sequence[Steady]) -> float | None:
    return median(turns, "cpu_ms_a_read")
