"""The simulated inspect texts beside texts of the real server, byte for byte."""

import json
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from sandgauge_demo.deployment import (
    Component,
    Runtime,
    SandboxChanges,
    SandboxSpec,
    SandboxState,
    SimulatedDeployment,
    SimulatedNode,
)
from sandgauge_demo.deployment.inspect_text import inspect_text

FIXTURES = Path(__file__).parents[1] / "fixtures" / "inspect"


def real(case):
    """Return a real text, its namespace as the simulation's and its start to the second, as a pod's is."""
    text = (FIXTURES / case / "input.txt").read_text(encoding="utf-8")
    text = re.sub(r"(Started At: +\S+?)\.\d+Z", r"\1Z", text)
    return text.replace("Namespace:      osb\n", "Namespace:      opensandbox\n")


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


def simulate(spec, created_at, **details):
    deployment = SimulatedDeployment(
        clock=lambda: seconds(created_at), nodes=[SimulatedNode(name="node-1", address="10.0.0.11")]
    )
    sandbox = deployment.create(spec)
    return replace(sandbox, **details)


NO_PORTS: dict[int, int] = {}
DOCKER_SPEC = SandboxSpec(
    id="def7d148-2d09-48a3-b4e8-a04696986186",
    limits={"cpu": "500m", "memory": "128Mi"},
    image="local/busybox:1",
    metadata={"nemo-gym": "x", "team": "rl"},
    environment={
        "MY_SECRET": "hidden",
        "DATABASE_URL": "postgres://u:p@h/db",
        "API_KEY": "hidden",
        "MULTI": "line1\nResources:\n  CPU:          99.00 cores",
    },
)
DOCKER = {
    "container_id": "0bfe569dfe03",
    "address": "172.17.0.2",
    "expires_at": seconds("2026-11-29T15:23:33.370012+00:00"),
}
DOCKER_PORTS = {44772: 41527, 8080: 41469}

CASES = [
    pytest.param(
        "docker-forged-in-environment",
        simulate(DOCKER_SPEC, "2026-11-29T14:23:34+00:00", **DOCKER),
        DOCKER_PORTS,
        id="docker",
    ),
    pytest.param(
        "docker-paused",
        simulate(DOCKER_SPEC, "2026-11-29T14:23:34+00:00", **DOCKER, state=SandboxState.PAUSED),
        DOCKER_PORTS,
        id="docker-paused",
    ),
    pytest.param(
        "docker-no-limits",
        simulate(
            SandboxSpec(id="02fe5c0c-3d0d-4cba-aa5b-555388d9cc96", image="local/busybox:1"),
            "2026-11-29T14:24:56+00:00",
            container_id="41477b23ddb3",
            address="172.17.0.2",
            expires_at=seconds("2026-11-29T14:25:55.797142+00:00"),
        ),
        {44772: 41721, 8080: 41700},
        id="docker-no-limits",
    ),
    pytest.param(
        "live-created-by-server",
        simulate(
            SandboxSpec(
                id="dbce4b63-082d-4454-9222-69253a674a90",
                runtime=Runtime.KUBERNETES,
                requests={"cpu": "500m", "memory": "128Mi"},
                limits={"cpu": "500m", "memory": "128Mi"},
                image="local/sb:1",
                metadata={"team": "rl"},
            ),
            "2026-11-30T07:07:40+00:00",
            address="172.29.0.2",
        ),
        NO_PORTS,
        id="kubernetes",
    ),
    pytest.param(
        "live-created-by-server-no-limits",
        simulate(
            SandboxSpec(
                id="0e86ec74-d647-408e-8ae8-698766f039fe",
                runtime=Runtime.KUBERNETES,
                image="local/sb:1",
                metadata={"team": "rl"},
            ),
            "2026-11-30T07:07:49+00:00",
            address="172.29.0.5",
        ),
        NO_PORTS,
        id="kubernetes-no-limits",
    ),
    pytest.param(
        "live-limitrange-defaulted",
        simulate(
            SandboxSpec(
                id="sb-03",
                runtime=Runtime.KUBERNETES,
                requests={"memory": "128Mi", "cpu": "100m"},
                limits={"cpu": "1", "memory": "512Mi"},
                sidecars=(
                    Component(
                        name="lim",
                        requests={"cpu": "1500m", "memory": "128Mi"},
                        limits={"cpu": "1500m", "memory": "512Mi"},
                    ),
                    Component(
                        name="req", requests={"cpu": "250m", "memory": "128Mi"}, limits={"cpu": "1", "memory": "512Mi"}
                    ),
                ),
                image="registry.invalid/x:1",
            ),
            "2026-11-30T07:06:24+00:00",
            address="10.1.2.3",
        ),
        NO_PORTS,
        id="kubernetes-three-containers",
    ),
    pytest.param(
        "live-pending-unscheduled",
        simulate(
            SandboxSpec(
                id="sb-06",
                runtime=Runtime.KUBERNETES,
                requests={"cpu": "1", "memory": "1Gi"},
                limits={"cpu": "1", "memory": "1Gi"},
                state=SandboxState.PENDING,
            ),
            "2026-11-30T07:06:24+00:00",
        ),
        NO_PORTS,
        id="kubernetes-pending",
    ),
]


@pytest.mark.parametrize(("case", "sandbox", "ports"), CASES)
def test_the_text_is_the_real_one(case, sandbox, ports):
    assert inspect_text(sandbox, ports) == real(case)


def test_fast_sandbox_has_the_keys_of_the_real_one_and_no_resources():
    sandbox = simulate(SandboxSpec(id="fsb-123", runtime=Runtime.FAST_SANDBOX), "2026-11-29T14:23:34+00:00")
    text = inspect_text(sandbox, NO_PORTS)
    assert list(json.loads(text)) == list(json.loads(real("fast-sandbox")))
    assert text.startswith("{\n")


@pytest.mark.parametrize(
    ("limits", "lines"),
    [
        ({"cpu": "125m"}, ["  CPU:          0.12 cores"]),
        ({"cpu": "11m"}, ["  CPU:          0.01 cores"]),
        ({"cpu": "2.5"}, ["  CPU:          2.50 cores"]),
        ({"memory": "129M"}, ["  Memory:       123 MiB"]),
        ({"memory": "1536Ki"}, ["  Memory:       1 MiB"]),
        ({"memory": "8Gi"}, ["  Memory:       8192 MiB"]),
        ({"nvidia.com/gpu": "2"}, []),
    ],
)
def test_docker_shows_limits_rounded_and_nothing_else(limits, lines):
    sandbox = simulate(SandboxSpec(limits=limits), "2026-11-29T14:23:34+00:00")
    block = inspect_text(sandbox, NO_PORTS).split("\n\n")[1].split("\n")
    assert block == ["Resources:", *lines, "  PIDs Limit:   256"]


def test_an_ended_container_and_a_restarted_pod_say_that_memory_ran_out():
    deployment = SimulatedDeployment(clock=lambda: 1_000_000.0)
    deployment.create(SandboxSpec(id="docker"))
    deployment.create(SandboxSpec(id="kubernetes", runtime=Runtime.KUBERNETES))
    deployment.end("docker", exit_code=137, oom_killed=True)
    deployment.change("kubernetes", SandboxChanges(oom_killed=True))
    ended = inspect_text(deployment.get("docker"), NO_PORTS)
    assert "Status:         exited\nRunning:        False\nPaused:         False\nOOMKilled:      True" in ended
    assert "Exit Code:      137" in ended
    restarted = inspect_text(deployment.get("kubernetes"), NO_PORTS)
    assert "    Last State:     Terminated (exit=137, reason=OOMKilled)" in restarted
