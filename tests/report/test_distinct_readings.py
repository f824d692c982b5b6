import math
import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_report.merging.distinct import DistinctReadings, K, hash_of

readings = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000), st.floats(0, 1e6)), max_size=60)


def taken(items):
    found = DistinctReadings()
    for number, at_ns, value in items:
        found.add(hash_of("trace", str(number)), at_ns, value)
    return found


def figures(found):
    if not found.count:
        return found.count
    return (
        found.count,
        found.mean,
        found.percentile(95),
        found.min,
        found.max,
        found.last,
        found.first_ns,
        found.last_ns,
    )


@given(readings, st.randoms(use_true_random=False))
def test_order_and_repeats_make_no_difference(items, rng):
    again = items + rng.sample(items, len(items) // 2)
    rng.shuffle(again)
    assert figures(taken(again)) == figures(taken(items))


@given(readings, st.integers(0, 60))
def test_two_halves_put_together_are_the_whole(items, cut):
    first, second = taken(items[:cut]), taken(items[cut:])
    first.absorb(second)
    assert figures(first) == figures(taken(items))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_as_long_as_all_are_kept_every_figure_is_that_of_all(values):
    found = taken(enumerate_at(values))
    assert found.is_exact
    assert (found.count, found.min, found.max, found.last) == (len(values), min(values), max(values), values[-1])
    assert found.mean == pytest.approx(fmean(values))
    assert found.percentile(95) == sorted(values)[math.ceil(0.95 * len(values)) - 1]


def enumerate_at(values):
    return [(number, number + 1, value) for number, value in enumerate(values)]


@pytest.mark.parametrize("count", [2_000, 20_000])
def test_of_many_the_sample_comes_as_close_as_it_is_said_to(count):
    rng = random.Random(count)
    values = [rng.expovariate(1 / 500) for _ in range(count)]
    found = taken(enumerate_at(values))
    ordered = sorted(values)
    assert not found.is_exact
    assert len(found._values) == K
    assert found.count == pytest.approx(count, rel=0.13)  # three standard errors
    assert ordered[int(0.92 * count)] <= found.percentile(95) <= ordered[int(0.98 * count)]
    assert found.mean == pytest.approx(fmean(values), rel=0.15)
    assert (found.min, found.max, found.last) == (ordered[0], ordered[-1], values[-1])


def test_of_many_too_order_and_repeats_make_no_difference():
    items = enumerate_at([float(number % 977) for number in range(3 * K)])
    shuffled = items + items[:K]
    random.Random(1).shuffle(shuffled)
    assert figures(taken(shuffled)) == figures(taken(items))
