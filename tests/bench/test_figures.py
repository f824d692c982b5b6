"""Figures follow from what was seen as they say."""

import pytest

from bench.deliveries import Reading
from bench.figures import Quantiles, cadence_of
from bench.flatness import Held, growths


def reading(sandbox_id: str, start_s: float, error_type: str | None = None) -> Reading:
    return Reading(sandbox_id, int(start_s * 1e9), 0, 0, error_type)


def test_quantiles_are_values_that_were_there() -> None:
    assert Quantiles.of(range(1, 101)) == Quantiles(100, 50, 99, 100)
    assert Quantiles.of([7.0]) == Quantiles(1, 7.0, 7.0, 7.0)
    assert Quantiles.of([]) is None


@pytest.mark.parametrize(
    ("read", "intervals_s", "missed_share"),
    [
        ([("a", 0), ("a", 10), ("a", 20)], [10, 10], 0.0),
        ([("a", 20), ("b", 5), ("a", 10)], [10], 0.0),  # in whatever order they came
        ([("a", 0), ("a", 14)], [14], 0.0),  # late, and no tick was left out
        ([("a", 0), ("a", 30)], [30], 0.5),
        ([("a", 0), ("a", 10, "timeout")], [10], 0.5),
        ([("a", 0)], [], 0.0),
        ([], [], None),
    ],
)
def test_a_gap_of_several_intervals_is_ticks_that_were_missed(
    read: list[tuple[str, float]], intervals_s: list[float], missed_share: float | None
) -> None:
    found = cadence_of([reading(*one) for one in read], 10.0)
    assert (found.intervals_s, found.missed_share) == (intervals_s, missed_share)


def test_an_interval_counts_where_it_ends() -> None:
    found = cadence_of([reading("a", 0), reading("a", 10), reading("a", 30)], 10.0, since_ns=15 * 10**9)
    assert (found.intervals_s, found.missed_share) == ([20], 0.5)


def test_only_growth_over_the_second_half_counts() -> None:
    def held(at_s: float, memory_mib: float) -> Held:
        return Held(at_s=at_s, memory_mib=memory_mib, open_files=5000 + at_s % 2, threads=5, tasks=500)

    filling = [held(second, min(second, 50)) for second in range(101)]
    assert all(growth.is_flat for growth in growths(filling))
    leaking = [held(second, 50 + second) for second in range(101)]
    assert [growth.name for growth in growths(leaking) if not growth.is_flat] == ["memory_mib"]
