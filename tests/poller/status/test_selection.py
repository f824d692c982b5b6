"""Which rows a query asks for, in which order; and what is said of one that asks for what there is not."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.status.selection import Order, Selection, SelectionError, Show, Sort, parse_selection
from sandgauge_poller.tracking.progress import End
from sandgauge_schemas.names import EndReason
from support.tracked_sandbox import NOW_NS, S_NS, fleet, limited, read, tracked

SANDBOXES = (
    tracked(
        "a-10", rollout="9-0", age_s=50, statistics=read(memory_used_mib=10.0, cpu_used_percentage=50.0, cpu_count=2)
    ),
    tracked("a-9", rollout="10-0", age_s=500, statistics=read(memory_used_mib=30.0, cpu_used_cores=3.0)),
    tracked("b-1", rollout=None, deployment="evaluation", age_s=5, allocation=limited(("sandbox", 1.0, 64.0))),
    tracked("b-2", run="Other", age_s=60, leaked=True, allocation=limited(("sandbox", 1.0, 32.0))),
    tracked("c-1", paused=True, age_s=70),
    tracked("c-2", failed_in_a_row_ns=[1], age_s=30, last_reading_ns=NOW_NS - 25 * S_NS),
    tracked("d-1", end=End(EndReason.GONE, NOW_NS), age_s=1, failed_in_a_row_ns=[1]),
    tracked("d-2", deployment=None, age_s=2),
)


def ids(**query):
    found = parse_selection(query).of(fleet(*SANDBOXES), NOW_NS)
    return [sandbox.key.sandbox_id for sandbox in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "a-"}, ["a-10", "a-9"]),
        ({"q": " OTHER "}, ["b-2"]),
        ({"q": "10-0"}, ["a-9"]),
        ({"q": "evaluation"}, ["b-1"]),
        ({"q": "nowhere"}, []),
        ({"show": "paused"}, ["c-1"]),
        ({"show": "ending"}, ["d-1"]),
        ({"show": "unmatched"}, ["d-2"]),
        ({"show": "leaked"}, ["b-2"]),
        ({"show": "failing"}, ["c-2"]),
        ({"show": "late", "sort": "sandbox"}, ["a-9", "a-10", "b-2", "c-2"]),
        ({"show": "active", "deployment": "evaluation"}, ["b-1"]),
        ({"deployment": "evaluation", "q": "a-"}, []),
    ],
)
def test_a_part_of_the_fleet_is_asked_for(query, expected):
    assert sorted(ids(**query)) == sorted(expected)


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("sandbox", ["a-9", "a-10", "b-1"]),
        ("rollout", ["b-2"]),
        ("age", ["d-1", "d-2", "b-1"]),
        ("allocation", ["b-2", "b-1"]),
        ("cpu", ["a-10", "a-9"]),
        ("memory", ["a-10", "a-9"]),
        ("read", ["c-2"]),
        ("lateness", ["b-1", "c-2", "a-10"]),
        ("state", ["a-10", "a-9", "b-1"]),
    ],
)
def test_rows_come_in_order_and_those_that_lack_the_value_last_either_way(sort, first):
    up, down = ids(sort=sort), ids(sort=sort, order="desc")
    assert up[: len(first)] == first
    assert len(up) == len(down) == len(SANDBOXES)
    if sort in ("cpu", "memory", "allocation"):
        assert down[:2] == first[1::-1]
        assert up[2:] == down[2:], "what has no number stays where it was"


@given(st.lists(st.tuples(st.sampled_from(["a", "a-", "ab"]), st.integers(0, 10**20), st.integers(0, 12)), max_size=6))
def test_ids_are_ordered_by_the_numbers_in_them(parts):
    sandboxes = [tracked(f"{name}{number}-{last}") for name, number, last in parts]
    found = parse_selection({"sort": "sandbox"}).of(fleet(*sandboxes), NOW_NS)
    expected = [f"{name}{number}-{last}" for name, number, last in sorted(parts, key=_with_the_number_first)]
    assert [sandbox.key.sandbox_id for sandbox in found] == expected


def _with_the_number_first(part):
    name, number, last = part
    # A digit comes before whatever else a name goes on with.
    return name.ljust(2, "\0"), number, last


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"sort": "colour"}, "sort: must be one of sandbox, rollout"),
        ({"order": "up"}, "order: must be one of asc, desc"),
        ({"show": "dead"}, "show: must be one of all, active"),
        ({"limit": "1001"}, "limit: must be a whole number from 0 to 1000"),
        ({"limit": "-1"}, "limit: "),
        ({"offset": "x"}, "offset: must be a whole number"),
        ({"offset": "٣"}, "offset: must be a whole number"),
        ({"offset": "9" * 5000}, "offset: must be a whole number"),
        ({"page": "1"}, "page: there is no such key; use q, show"),
    ],
)
def test_a_query_for_what_there_is_not_names_the_key_and_the_cure(query, said):
    with pytest.raises(SelectionError, match="^" + said.replace("(", r"\(")):
        parse_selection(query)


def test_without_a_query_it_is_everything():
    assert parse_selection({}) == Selection()
    assert (Selection().show, Selection().sort, Selection().order) == (Show.ALL, Sort.AGE, Order.ASCENDING)


QUERIES = st.dictionaries(
    st.sampled_from(["q", "show", "deployment", "sort", "order", "offset", "limit", "x"]), st.text(max_size=9)
)


@given(QUERIES)
def test_no_query_does_more_than_say_what_is_wrong(query):
    with suppress(SelectionError):
        parse_selection(query).of(fleet(*SANDBOXES), NOW_NS)


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=8, unique=True),
    st.sampled_from(Sort),
)
def test_no_rollout_id_upsets_an_order(rollouts, sort):
    sandboxes = [tracked(f"s-{number}", rollout=rollout) for number, rollout in enumerate(rollouts)]
    found = Selection(sort=sort).of(fleet(*sandboxes), NOW_NS)
    assert len(found) == len(sandboxes)
