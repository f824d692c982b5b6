"""What Docker's one-shot stats say, on either version of control groups; what they do not say is absent."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.docker.stats import parse_stats
from sandgauge_poller.reading.usage.rates import mark_of, window_since
from sandgauge_poller.reading.usage.source import UsageObservation
from sandgauge_schemas.names import ErrorType

FIXTURES = Path(__file__).parents[2] / "fixtures" / "docker-stats"
ID = "ab" * 32


def read_json(case, name):
    return json.loads((FIXTURES / case / name).read_text(encoding="utf-8"))


V1, V2 = (read_json(case, "input.json")[0] for case in ("oneshot-v1", "oneshot-v2"))


def changed(answer, path, value):
    """Return the answer with one value in place of another; None takes it out."""
    answer = copy.deepcopy(answer)
    *sections, key = path.split(".")
    section = answer
    for name in sections:
        section = section[name]
    if value is None:
        del section[key]
    else:
        section[key] = value
    return answer


def parsed(answer):
    return parse_stats(json.dumps(answer).encode(), ID)


@pytest.mark.parametrize("case", sorted(path.name for path in FIXTURES.iterdir()))
def test_answers_of_real_daemons(case):
    for answer, expected in zip(read_json(case, "input.json"), read_json(case, "expected.json"), strict=True):
        found = parsed(answer)
        assert found == (expected if isinstance(expected, str) else UsageObservation(**expected))


@pytest.mark.parametrize("case", ["oneshot-v1", "oneshot-v2"])
def test_two_answers_give_the_cores_between_them(case):
    first, second = map(parsed, read_json(case, "input.json"))
    window = window_since(mark_of(first), second, passed_ns=10 * 10**9)
    assert (window.cpu_used_cores, window.window_s) == (0.6, 10.0)


@pytest.mark.parametrize(
    ("answer", "working_set_mib"),
    [
        (V1, 80.0),
        (changed(V1, "memory_stats.stats.total_inactive_file", 0), 84.0),  # not the one without its children's
        (changed(V1, "memory_stats.stats.total_inactive_file", None), 80.0),
        (changed(V2, "memory_stats.stats.inactive_file", 2**40), 0.0),  # both are not read at one instant
        (changed(V2, "memory_stats.stats.inactive_file", None), None),
        (changed(V2, "memory_stats.stats", None), None),
        (changed(V2, "memory_stats.usage", None), None),
        (changed(V2, "memory_stats.usage", "88080384"), None),
        (changed(V2, "memory_stats.usage", 0), 0.0),
    ],
)
def test_the_working_set_leaves_out_what_can_be_let_go(answer, working_set_mib):
    assert parsed(answer).memory_working_set_mib == working_set_mib


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (changed(V1, "id", "cd" * 32), ErrorType.NOT_FOUND),  # a container whose name is the digits that were asked for
        (changed(V1, "id", 17), ErrorType.NOT_FOUND),
        (changed(V1, "memory_stats", {}), ErrorType.NO_READING),
        (changed(V1, "read", "0001-01-01T00:00:00Z"), ErrorType.NO_READING),
        (changed(V1, "read", None), ErrorType.UNRECOGNIZED_FORMAT),
        (changed(V1, "read", "yesterday"), ErrorType.UNRECOGNIZED_FORMAT),
        (changed(V1, "read", 17), ErrorType.UNRECOGNIZED_FORMAT),
        (changed(V1, "cpu_stats", None), ErrorType.UNRECOGNIZED_FORMAT),
        (changed(V1, "cpu_stats.cpu_usage.total_usage", -1), ErrorType.UNRECOGNIZED_FORMAT),
        (changed(V1, "cpu_stats.cpu_usage.total_usage", True), ErrorType.UNRECOGNIZED_FORMAT),
        (changed(V1, "cpu_stats.cpu_usage.total_usage", 2**64 - 1), ErrorType.UNRECOGNIZED_FORMAT),
        ([], ErrorType.UNRECOGNIZED_FORMAT),
        (None, ErrorType.UNRECOGNIZED_FORMAT),
    ],
)
def test_what_is_no_reading_is_none(answer, expected):
    assert parsed(answer) == expected


def test_throttling_is_known_only_under_a_limit():
    assert parsed(V1).cpu_throttled_s == 4.0
    assert parsed(changed(V1, "cpu_stats.throttling_data.throttled_time", 0)).cpu_throttled_s == 0.0
    assert parsed(changed(V1, "cpu_stats.throttling_data.periods", 0)).cpu_throttled_s is None
    assert parsed(changed(V1, "cpu_stats.throttling_data", None)).cpu_throttled_s is None


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_any_body_is_a_reading_or_none(body):
    assert isinstance(parse_stats(body, ID), (UsageObservation, ErrorType))
