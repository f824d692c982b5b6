"""Who owns a sandbox: exactly one of the pollers there are, and the same one wherever it is asked."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.tracking.ownership import owns_all, owns_shard

IDS = [f"sandbox-{number}" for number in range(1000)]


def owner(sandbox_id, count):
    owners = [index for index in range(count) if owns_shard(index, count)(sandbox_id)]
    assert len(owners) == 1
    return owners[0]


def test_the_only_poller_owns_every_sandbox():
    assert all(map(owns_all, IDS))
    assert all(map(owns_shard(0, 1), IDS))


@given(st.text(min_size=1), st.integers(1, 9))
def test_each_sandbox_has_one_owner_and_a_new_poller_takes_only_for_itself(sandbox_id, count):
    assert owner(sandbox_id, count + 1) in {owner(sandbox_id, count), count}


@pytest.mark.parametrize("count", [2, 3, 10])
def test_the_shares_are_about_equal(count):
    shares = Counter(owner(sandbox_id, count) for sandbox_id in IDS)
    assert min(shares.values()) > 0.7 * len(IDS) / count
    assert max(shares.values()) < 1.4 * len(IDS) / count


def test_a_poller_beyond_the_count_owns_nothing():
    assert not any(map(owns_shard(3, 3), IDS))


def test_the_owner_is_the_same_in_every_release():
    assert [owner(sandbox_id, 4) for sandbox_id in IDS[:12]] == [2, 1, 0, 1, 0, 2, 3, 0, 1, 0, 2, 2]
