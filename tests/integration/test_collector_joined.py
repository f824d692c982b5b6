"""The joined overlay, in a real Collector: JSON lines with one resource for each rollout."""

import json
from collections import Counter
from itertools import chain

import pytest

from sandgauge_demo.collector import JOINED
from sandgauge_schemas.names import (
    NEMO_GYM_ROLLOUT_ID,
    NEMO_RUN_ID,
    OTEL_TRACE_ID,
    SANDGAUGE_POLLER_SERVICE_NAME,
    SANDGAUGE_TRACE_GROUP,
    SERVICE_NAME,
    SPAN_GYM_ROLLOUT,
    SPAN_GYM_SANDBOX_EXEC,
    SPAN_GYM_SANDBOX_REQUEST,
    SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    SPAN_GYM_SANDBOX_START,
    SPAN_GYM_SANDBOX_STOP,
)
from support.otlp_json import captured, from_resource, new_trace_id, plain, span, traces
from support.real_collector import collector, send
from support.waiting import wait_until

pytestmark = pytest.mark.integration

GYM = {SERVICE_NAME: "nemo-gym/swe_agent", NEMO_RUN_ID: "run-1", "process.pid": 17}
POLLER = {SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME}


@pytest.fixture
def joined(tmp_path):
    """Send one request, which never straddles two windows, and return its line once it is there."""

    def run(*resources, count):
        with collector(tmp_path, JOINED, settings={"JOIN_WINDOW": "50ms"}) as running:
            assert send(running, traces(*resources)) == 200
            wait_for_spans(running, count)
        (line,) = lines(running)
        return line

    return run


def lines(running):
    """Return each finished line as a list of (resource attributes, spans)."""
    text = running.joined_file.read_text() if running.joined_file.exists() else ""
    return [
        [(plain(one["resource"]["attributes"]), spans(one)) for one in json.loads(line)["resourceSpans"]]
        for line in text.split("\n")[:-1]
    ]


def wait_for_spans(running, count):
    wait_until(
        lambda: sum(len(group) for line in lines(running) for _, group in line) >= count,
        timeout_s=60,
        what=f"{count} joined spans",
    )


def spans(resource_spans):
    (only_scope,) = resource_spans["scopeSpans"]
    return only_scope["spans"]


def attributes(one):
    return plain(one["attributes"])


def rollout_keys(run_id, rollout_id):
    return {NEMO_RUN_ID: run_id, NEMO_GYM_ROLLOUT_ID: rollout_id}


def test_one_resource_for_each_rollout_whoever_sent_the_spans(joined):
    traces_of = {rollout: new_trace_id() for rollout in ("7-0", "7-1")}
    gym_names = (SPAN_GYM_SANDBOX_REQUEST, SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP, SPAN_GYM_ROLLOUT)
    poller_names = (SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, SPAN_GYM_SANDBOX_RESOURCE_SAMPLE)
    of_gym = [
        from_resource(GYM, *(span(name, {NEMO_GYM_ROLLOUT_ID: rollout}, trace_id=trace) for name in gym_names))
        for rollout, trace in traces_of.items()
    ]
    of_poller = [
        from_resource(
            POLLER,
            *(span(name, rollout_keys("run-1", rollout), trace_id=trace) for rollout, trace in traces_of.items()),
            scope=scope,
            version=version,
        )
        for name, scope, version in zip(poller_names, ("tests", "sandgauge.poller"), ("2", "1"), strict=True)
    ]
    line = joined(*of_gym, *of_poller, count=12)

    found = {keys[NEMO_GYM_ROLLOUT_ID]: Counter(one["name"] for one in group) for keys, group in line}
    assert [keys for keys, _ in line] == [rollout_keys("run-1", rollout) for rollout in found]
    assert found == {rollout: Counter(gym_names + poller_names) for rollout in traces_of}
    for keys, group in line:
        trace = traces_of[keys[NEMO_GYM_ROLLOUT_ID]]
        assert {(one["traceId"], attributes(one)[OTEL_TRACE_ID]) for one in group} == {(trace, trace)}
        services = {one["name"]: attributes(one)[SERVICE_NAME] for one in group}
        assert services == dict.fromkeys(gym_names, GYM[SERVICE_NAME]) | dict.fromkeys(
            poller_names, SANDGAUGE_POLLER_SERVICE_NAME
        )


def test_equal_rollout_ids_of_two_runs_stay_apart(joined):
    line = joined(
        from_resource(GYM, span(SPAN_GYM_ROLLOUT, {NEMO_GYM_ROLLOUT_ID: "7-0"})),
        from_resource({**GYM, NEMO_RUN_ID: "run-2"}, span(SPAN_GYM_ROLLOUT, {NEMO_GYM_ROLLOUT_ID: "7-0"})),
        count=2,
    )
    assert [keys for keys, _ in line] == [rollout_keys("run-1", "7-0"), rollout_keys("run-2", "7-0")]


@pytest.mark.parametrize(
    ("run", "rollout"),
    [({NEMO_RUN_ID: "run-1"}, {}), ({}, {NEMO_GYM_ROLLOUT_ID: "7-0"}), ({}, {})],
    ids=["no rollout id", "no run id", "neither"],
)
def test_spans_without_a_whole_rollout_key_are_grouped_by_trace(joined, run, rollout):
    first, second = new_trace_id(), new_trace_id()
    line = joined(
        *(
            from_resource({SERVICE_NAME: "nemo-gym/swe_agent", **run}, span(name, rollout, trace_id=trace))
            for name in (SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP)
            for trace in (first, second)
        ),
        count=4,
    )
    assert [keys for keys, _ in line] == [
        {**run, **rollout, SANDGAUGE_TRACE_GROUP: first},
        {**run, **rollout, SANDGAUGE_TRACE_GROUP: second},
    ]
    assert [[one["name"] for one in group] for _, group in line] == [
        [SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_STOP]
    ] * 2


def test_stock_gym_gives_two_groups_of_one_trace(joined):
    line = joined(*captured("rollout")["resourceSpans"], count=14)
    groups = {
        (keys[NEMO_RUN_ID], keys.get(NEMO_GYM_ROLLOUT_ID), *{attributes(one)[OTEL_TRACE_ID] for one in group}): Counter(
            one["name"] for one in group
        )
        for keys, group in line
    }
    lifecycle = Counter({SPAN_GYM_SANDBOX_START: 3, SPAN_GYM_SANDBOX_STOP: 3})
    first, second = "a0dbbaa61ad7dec834ada52e0a8d74ff", "530ba55966869c1fb7437d262c4af269"
    assert groups == {
        ("run-abc123", None, first): lifecycle,
        ("run-abc123", "7-0", first): Counter({SPAN_GYM_ROLLOUT: 1}),
        ("run-abc123", None, second): lifecycle,
        ("run-abc123", "7-1", second): Counter({SPAN_GYM_ROLLOUT: 1}),
    }
    assert len(line) == len(groups)


def test_only_sandbox_and_rollout_spans_are_joined(joined):
    names = [SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_EXEC, "gym.verify", "HTTP POST", "gym.rollouts", "gym.sandboxes"]
    line = joined(from_resource(GYM, *(span(name) for name in names)), count=2)
    kept = chain.from_iterable(group for _, group in line)
    assert [one["name"] for one in kept] == [SPAN_GYM_SANDBOX_START, SPAN_GYM_SANDBOX_EXEC]


def test_a_window_gathers_what_several_requests_bring(tmp_path):
    request = traces(from_resource(GYM, span(SPAN_GYM_ROLLOUT, {NEMO_GYM_ROLLOUT_ID: "7-0"})))
    with collector(tmp_path, JOINED, settings={"JOIN_WINDOW": "1s"}) as running:
        for _ in range(10):
            assert send(running, request) == 200
        wait_for_spans(running, 10)
    found = lines(running)
    assert len(found) < 10
    assert [[keys for keys, _ in line] for line in found] == [[rollout_keys("run-1", "7-0")]] * len(found)


def test_a_stop_writes_what_the_present_window_has_gathered(tmp_path):
    request = traces(from_resource(GYM, span(SPAN_GYM_ROLLOUT, {NEMO_GYM_ROLLOUT_ID: "7-0"})))
    with collector(tmp_path, JOINED, settings={"JOIN_WINDOW": "2s"}) as running:
        assert send(running, request) == 200
        wait_for_spans(running, 1)
        assert send(running, request) == 200
    assert [[keys for keys, _ in line] for line in lines(running)] == [[rollout_keys("run-1", "7-0")]] * 2
