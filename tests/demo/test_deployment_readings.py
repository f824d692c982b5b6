"""What a reading says, by whose machine execd sees."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_demo.deployment import (
    ExecdKind,
    SandboxSpec,
    SimulatedDeployment,
    SimulatedNode,
    UsagePoint,
)
from sandgauge_demo.deployment.execd import metrics_body
from sandgauge_demo.deployment.usage import plausible_usage, usage_at

NODE = SimulatedNode(cpus=8, memory_mib=32_000.5, usage=(UsagePoint(0, 4.0, 20_000.25),))
BUSY = (UsagePoint(0, 0.25, 100.0),)


def read(kind, limits, usage=BUSY):
    deployment = SimulatedDeployment(clock=lambda: 1_000.0, nodes=[NODE])
    sandbox = deployment.create(SandboxSpec(execd_kind=kind, limits=limits, usage=usage))
    return json.loads(metrics_body(sandbox, deployment_started_at=deployment.started_at, read_at=1_002.5))


SMALL = {"cpu": "500m", "memory": "128Mi"}


@pytest.mark.parametrize(
    ("kind", "limits", "numbers"),
    [
        (ExecdKind.RUNC, SMALL, (2, 50, 32_000.5, 20_000.25)),
        (ExecdKind.RUNC, {"cpu": "2500m"}, (3, 50, 32_000.5, 20_000.25)),
        (ExecdKind.RUNC, {"cpu": "100"}, (8, 50, 32_000.5, 20_000.25)),
        (ExecdKind.RUNC, {}, (8, 50, 32_000.5, 20_000.25)),
        (ExecdKind.GVISOR, SMALL, (2, 0, 128, 100)),
        (ExecdKind.GVISOR, {}, (2, 0, 32_000.5, 100)),
        (ExecdKind.GUEST, SMALL, (1, 25, 128, 100)),
        (ExecdKind.GUEST, {"cpu": "1500m", "memory": "64Mi"}, (2, 12.5, 64, 64)),
    ],
)
def test_numbers_describe_the_machine_that_execd_sees(kind, limits, numbers):
    cpus, percentage, total, used = numbers
    reading = read(kind, limits)
    assert reading == {
        "cpu_count": cpus,
        "cpu_used_pct": percentage,
        "mem_total_mib": total,
        "mem_used_mib": used,
        "timestamp": 1_002_500,
    }


def test_busy_and_idle_containers_of_one_node_read_the_same():
    assert read(ExecdKind.RUNC, SMALL, BUSY) == read(ExecdKind.RUNC, SMALL, (UsagePoint(0, 0.0, 1.0),))


def test_whole_numbers_have_no_decimals_and_the_keys_an_order():
    deployment = SimulatedDeployment(clock=lambda: 1.5, nodes=[NODE])
    sandbox = deployment.create(SandboxSpec(execd_kind=ExecdKind.GVISOR, limits=SMALL, usage=BUSY))
    body = metrics_body(sandbox, deployment_started_at=0.0, read_at=1.5)
    assert body == b'{"cpu_count":2,"cpu_used_pct":0,"mem_total_mib":128,"mem_used_mib":100,"timestamp":1500}'


STEP = (UsagePoint(0, 1.0, 100.0), UsagePoint(10, 2.0, 200.0), UsagePoint(10, 0.0, 5.0), UsagePoint(20, 0.0, 15.0))


@pytest.mark.parametrize(
    ("seconds", "cores", "mebibytes"),
    [(-5, 1.0, 100.0), (0, 1.0, 100.0), (5, 1.5, 150.0), (10, 0.0, 5.0), (15, 0.0, 10.0), (99, 0.0, 15.0)],
)
def test_usage_is_a_line_between_points_and_constant_outside(seconds, cores, mebibytes):
    assert usage_at(STEP, seconds) == (seconds, cores, mebibytes)


def test_an_empty_timeline_uses_nothing():
    assert usage_at((), 7.0) == (7.0, 0.0, 0.0)


@given(st.text(min_size=1, max_size=40), st.floats(0, 3_600))
def test_plausible_usage_stays_within_the_limits_and_repeats(sandbox_id, seconds):
    timeline = plausible_usage(sandbox_id, "1500m", "256Mi")
    usage = usage_at(timeline, seconds)
    assert 0 <= usage.cpu_cores <= 1.5
    assert 0 < usage.memory_mib <= 256
    assert plausible_usage(sandbox_id, "1500m", "256Mi") == timeline


def test_plausible_usage_differs_between_sandboxes():
    assert len({plausible_usage(f"sb-{number}", "1", "1Gi") for number in range(20)}) > 5
