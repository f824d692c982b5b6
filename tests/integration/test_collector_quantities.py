"""The quantities overlay, in a real Collector: which span states which amount, and that nothing is made up."""

from contextlib import contextmanager
from typing import Any

import pytest

from sandgauge_schemas.names import (
    NEMO_GYM_ROLLOUT_ID,
    NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT,
    NEMO_GYM_SANDBOX_END_REASON,
    NEMO_GYM_SANDBOX_ID,
    NEMO_GYM_SANDBOX_LEAKED,
    NEMO_GYM_SANDBOX_LIFETIME_S,
    NEMO_GYM_SANDBOX_PROVIDER,
    NEMO_GYM_SANDBOX_READINGS_COUNT,
    NEMO_GYM_SANDBOX_READINGS_MISSED,
    NEMO_GYM_SANDBOX_REQUEST_ID,
    NEMO_GYM_SANDBOX_REQUESTED_CPU,
    NEMO_GYM_SANDBOX_REQUESTED_MEMORY_MIB,
    NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU,
    NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_MEMORY_MIB,
    NEMO_RUN_ID,
    SANDGAUGE_POLLER_SERVICE_NAME,
    SERVICE_NAME,
    SPAN_GYM_SANDBOX_REQUEST,
    SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    SPAN_GYM_SANDBOX_START,
    EndReason,
)
from support.otlp_json import from_resource, span, traces
from support.otlp_sink import OtlpSink
from support.real_collector import QUANTITIES, collector, complaints, send

pytestmark = pytest.mark.integration

GYM = {SERVICE_NAME: "nemo-gym/swe_agent", NEMO_RUN_ID: "run-1", "process.pid": 7}
POLLER = {SERVICE_NAME: SANDGAUGE_POLLER_SERVICE_NAME}
REQUEST = {NEMO_GYM_ROLLOUT_ID: "7-0", NEMO_GYM_SANDBOX_REQUEST_ID: "request-1", NEMO_GYM_SANDBOX_PROVIDER: "osb"}
SANDBOX = {**REQUEST, NEMO_GYM_SANDBOX_ID: "sandbox-1"}
RUN = {NEMO_RUN_ID: "run-1"}
LAST = "gym.sandbox.readings.count"
COMPONENT = "nemo.gym.sandbox.allocation.component"


def component(number: int, name: str, **limits: float) -> dict[str, Any]:
    named = {f"{COMPONENT}.{number}.limits.{resource}": value for resource, value in limits.items()}
    return {f"{COMPONENT}.{number}.name": name, **named}


def summary(**more: Any) -> dict[str, Any]:
    ended = {NEMO_GYM_SANDBOX_END_REASON: EndReason.STOPPED, NEMO_GYM_SANDBOX_LEAKED: False}
    return {**SANDBOX, **RUN, **ended, NEMO_GYM_SANDBOX_READINGS_COUNT: 12, NEMO_GYM_SANDBOX_READINGS_MISSED: 1, **more}


@contextmanager
def measuring(directory, gym=(), poller=()):
    """Send Gym's spans and then the poller's, a summary last; give the metrics once that one is among them."""
    with OtlpSink() as metrics, collector(directory, QUANTITIES, metrics=metrics.endpoint) as running:
        closing = span(SPAN_GYM_SANDBOX_RESOURCE_SUMMARY, summary())
        assert send(running, traces(from_resource(GYM, *gym))) == 200
        assert send(running, traces(from_resource(POLLER, *poller, closing))) == 200
        metrics.wait_for(lambda sink: sink.points(LAST))
        yield metrics
    assert [line for line in complaints(running) if "signal_to_metrics" in line] == []


def values(sink: OtlpSink) -> dict[str, list[float]]:
    """Return the values of each metric but those of the closing summary."""
    found: dict[str, list[float]] = {}
    for point in sink.points():
        if not point.name.startswith(("gym.sandbox.readings.", "gym.sandbox.lifetime_s")):
            found.setdefault(point.name, []).append(point.value)
    return found


def test_each_amount_is_taken_from_the_span_that_states_it(tmp_path):
    requested = {NEMO_GYM_SANDBOX_REQUESTED_CPU: 8.0, NEMO_GYM_SANDBOX_REQUESTED_MEMORY_MIB: 16384}
    submitted = {NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU: 4.0, NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_MEMORY_MIB: 8192.0}
    allocated = {NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT: 1, **component(0, "main", cpu=3.5, memory_mib=8191.5)}
    gym = [
        span(SPAN_GYM_SANDBOX_REQUEST, {**REQUEST, **requested}),
        span(SPAN_GYM_SANDBOX_START, {**SANDBOX, **submitted}),
    ]
    poller = [
        span(SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, {**SANDBOX, **RUN, **allocated}),
        span(SPAN_GYM_SANDBOX_RESOURCE_SUMMARY, summary(**{NEMO_GYM_SANDBOX_LIFETIME_S: 61.5})),
    ]
    with measuring(tmp_path, gym, poller) as metrics:
        points = {point.name: point for point in metrics.points()}
        assert values(metrics) == {
            "gym.sandbox.requested.cpu": [8.0],
            "gym.sandbox.requested.memory_mib": [16384],
            "gym.sandbox.start.duration": [1.0],
            "gym.sandbox.submitted.limits.cpu": [4.0],
            "gym.sandbox.submitted.limits.memory_mib": [8192.0],
            "gym.sandbox.allocation.limits.cpu": [3.5],
            "gym.sandbox.allocation.limits.memory_mib": [8191.5],
        }
    assert points["gym.sandbox.lifetime_s"].value == 61.5
    assert points["gym.sandbox.readings.missed"].value == 1
    assert points["gym.sandbox.requested.cpu"].attributes == {**REQUEST, **RUN}
    for name in ("gym.sandbox.start.duration", "gym.sandbox.allocation.limits.cpu"):
        assert points[name].attributes == {**SANDBOX, **RUN}
    ending = points["gym.sandbox.readings.missed"].attributes
    assert ending.items() >= {**SANDBOX, **RUN, NEMO_GYM_SANDBOX_END_REASON: EndReason.STOPPED}.items()
    # What tells single processes apart would make a series of each.
    assert "process.pid" not in points["gym.sandbox.requested.cpu"].resource
    assert points["gym.sandbox.requested.cpu"].unit == "{cpu}"
    assert points["gym.sandbox.requested.memory_mib"].unit == "MiBy"


def test_what_a_span_does_not_state_makes_no_point(tmp_path):
    gym = [
        span(SPAN_GYM_SANDBOX_REQUEST, REQUEST),
        span(SPAN_GYM_SANDBOX_START, SANDBOX),
        span(SPAN_GYM_SANDBOX_START, REQUEST | {NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU: 4.0}),  # nothing was created
    ]
    poller = [
        span(SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, SANDBOX),
        span(SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, {**SANDBOX, NEMO_GYM_SANDBOX_REQUESTED_CPU: 9.0}),
    ]
    with measuring(tmp_path, gym, poller) as metrics:
        assert values(metrics) == {"gym.sandbox.start.duration": [1.0]}


@pytest.mark.parametrize(
    ("components", "limits"),
    [
        (component(0, "sandbox", memory_mib=512.0) | component(1, "proxy", memory_mib=64.0), [512.0]),
        (component(0, "proxy", memory_mib=64.0) | component(1, "database", memory_mib=512.0), []),
        (component(0, "sandbox", cpu=0.0, memory_mib=0.0) | component(1, "proxy"), [0.0]),
    ],
    ids=["the sandbox among others", "no telling which", "a limit of zero is one"],
)
def test_the_limit_is_that_of_the_sandbox_itself(tmp_path, components, limits):
    shape = {NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT: 2, **components}
    poller = [span(SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, {**SANDBOX, **shape})]
    with measuring(tmp_path, poller=poller) as metrics:
        assert values(metrics).get("gym.sandbox.allocation.limits.memory_mib", []) == limits
