"""What a list of core pods tells of lives and kills."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.kubernetes.pods import PodLife, parse_pods
from sandgauge_poller.reading.times import read_time
from support.pod_lists import container, pod, pod_list

POD_START, START, LATER = "2026-11-30T07:00:00Z", "2026-11-30T07:00:02Z", "2026-11-30T07:30:00Z"


def life_of(item: Any) -> PodLife:
    page = parse_pods(json.dumps(pod_list(item)).encode(), frozenset({"p"}))
    assert page is not None
    return page.pods["p"]


@pytest.mark.parametrize(
    ("containers", "killed"),
    [
        ([container()], False),
        ([container(restarts=1, last="OOMKilled")], True),
        ([container(restarts=7, last="OOMKilled")], True),
        ([container(ended="OOMKilled")], True),
        ([container(restarts=1, last="Error")], False),
        ([container(ended="Completed")], False),
        # of earlier ends nothing is kept
        ([container(restarts=2, last="Error")], None),
        ([container(restarts=1)], None),
        # a neighbour's end is not the sandbox's
        ([container("egress", restarts=1, last="OOMKilled"), container()], False),
        ([container("only", restarts=1, last="OOMKilled")], True),
        ([container("one", restarts=1, last="OOMKilled"), container("other")], None),
        ([], None),
        ([{"name": "sandbox"}], None),
    ],
)
def test_whether_the_main_container_was_killed(containers: list[Any], killed: bool | None) -> None:
    assert life_of(pod("p", *containers)).main_killed is killed


@pytest.mark.parametrize(
    ("item", "started"),
    [
        (pod("p", container()), START),
        (pod("p", container(restarts=1, started=LATER, last="Error")), LATER),
        (pod("p", container("egress", started=LATER), container()), START),
        (pod("p", container("a", started=LATER), container("b")), POD_START),
        (pod("p", container(ended="Error")), POD_START),
        (pod("p", started="soon"), None),
    ],
)
def test_when_the_present_life_began(item: Any, started: str | None) -> None:
    assert life_of(item).started_ns == (read_time(started) if started else None)


def test_sidecars_run_beside_and_what_has_ended_does_not() -> None:
    item = pod(
        "p",
        container(),
        container("done", ended="Completed"),
        initContainerStatuses=[container("proxy"), container("installer", ended="Completed")],
        ephemeralContainerStatuses=[container("debugger")],
    )
    assert life_of(item).running == {"sandbox", "proxy", "debugger"}


def test_nothing_of_the_spec_is_kept() -> None:
    page = parse_pods(json.dumps(pod_list(pod("p", container()), pod("q"))).encode(), frozenset({"p"}))
    assert page is not None
    assert set(page.pods) == {"p"}
    assert "hunter2" not in repr(page)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_nothing_in_the_place_of_a_status_raises(value: object) -> None:
    items = [pod("p"), pod("p", value), pod("p", initContainerStatuses=value), {**pod("p"), "metadata": value}, value]
    items[0]["status"] = value
    statuses = [{"name": value, "restartCount": value, "state": value, "lastState": value}]
    for item in [*items, pod("p", *statuses), pod("p", *[{"state": {"running": value, "terminated": value}}])]:
        assert parse_pods(json.dumps(pod_list(item)).encode(), frozenset({"p"})) is not None
