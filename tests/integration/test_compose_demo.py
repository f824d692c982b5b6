"""The shipped compose file with its demo, asked over the ports that it publishes."""

import json
from collections import Counter, defaultdict

import pytest

from sandgauge_demo.scenario import fleet_rollouts
from sandgauge_schemas import names
from support.compose_stack import ComposeStack, shipped_settings
from support.jaeger_api import Trace
from support.waiting import wait_until

pytestmark = pytest.mark.integration

GYM, POLLER = "nemo-gym/demo", "sandgauge-poller"
GAUGES = (
    names.METRIC_GYM_SANDBOX_CPU_COUNT,
    names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE,
    names.METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB,
    names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB,
)
IDS = ("nemo_run_id", "nemo_gym_rollout_id")


def as_prometheus_names(name: str) -> str:
    return name.replace(".", "_")


def ended_rollouts(stack: ComposeStack) -> list[Trace]:
    """Return the traces of rollouts that are over; the rollout's span is the last of what Gym sends."""
    return [Trace.of(shown) for shown in stack.traces(GYM, names.SPAN_GYM_ROLLOUT)]


def test_it_says_once_which_deployment_it_reads_and_every_service_is_well(demo_stack):
    demo_stack.compose("--profile", "demo", "up", "--detach", "--wait")
    readiness = demo_stack.get("status", "/readyz").json()
    assert readiness["ready"]
    assert list(readiness["control_planes"]) == ["opensandbox"]
    assert "<title>Sandgauge" in demo_stack.get("status", "/").text
    assert demo_stack.get("status", "/page.js").status_code == 200
    assert demo_stack.get("grafana", "/api/health").status_code == 200
    assert any("Fleet" in line for line in demo_stack.logs("grafana"))


def test_one_trace_holds_what_gym_and_the_poller_say_of_a_rollout(demo_stack):
    def is_read(trace: Trace) -> bool:
        """Whether a sandbox of it was read before it ended, as a busy machine may not have done with the first."""
        return any(
            span.name == names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
            and int(span.tags[names.NEMO_GYM_SANDBOX_READINGS_COUNT]) > 0
            for span in trace.spans
        )

    def read_rollouts() -> list[Trace]:
        return [trace for trace in ended_rollouts(demo_stack) if is_read(trace)]

    wait_until(lambda: bool(read_rollouts()), timeout_s=120, what="a rollout whose sandbox was read", interval_s=1)
    for trace in read_rollouts():
        assert trace.names(GYM) >= {names.SPAN_GYM_ROLLOUT}
        assert names.SPAN_GYM_SANDBOX_REQUEST in trace.names()
        assert names.SPAN_GYM_SANDBOX_START in trace.names()
        assert names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION in trace.names(POLLER)
        assert names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE in trace.names(POLLER)


def test_a_rollout_id_finds_the_four_gauges_of_its_sandboxes(demo_stack):
    found = []

    def is_any_read() -> bool:  # between two runs none is
        found[:] = demo_stack.query("topk(1, timestamp(gym_sandbox_memory_used_mib))")
        return bool(found)

    wait_until(is_any_read, timeout_s=120, what="a sandbox that is read", interval_s=0.5)
    newest = found[0]
    chosen = ", ".join(f'{label}="{newest["metric"][label]}"' for label in IDS)
    for gauge in GAUGES:
        series = demo_stack.query(f"last_over_time({as_prometheus_names(gauge)}{{{chosen}}}[2m])")
        assert series, gauge
        assert all(one["metric"]["nemo_gym_sandbox_request_id"] for one in series)


def test_the_series_of_a_stopped_sandbox_end_at_once(demo_stack):
    def stopped() -> set[str]:
        return {
            span.tags[names.NEMO_GYM_SANDBOX_ID]
            for trace in ended_rollouts(demo_stack)
            for span in trace.spans
            if span.name == names.SPAN_GYM_SANDBOX_STOP
        }

    wait_until(lambda: bool(stopped()), timeout_s=120, what="a stopped sandbox", interval_s=1)
    ended = stopped()
    # A sandbox that is gone would be seen for five minutes, did nobody say that it has ended.
    wait_until(lambda: not (ended & live(demo_stack)), timeout_s=60, what="the end of their series", interval_s=0.5)
    assert ended & seen(demo_stack)
    wait_until(lambda: bool(live(demo_stack)), timeout_s=120, what="a series that goes on", interval_s=0.5)


def live(stack: ComposeStack) -> set[str]:
    return {one["metric"]["nemo_gym_sandbox_id"] for one in stack.query("gym_sandbox_memory_used_mib")}


def seen(stack: ComposeStack) -> set[str]:
    series = stack.query("last_over_time(gym_sandbox_memory_used_mib[10m])")
    return {one["metric"]["nemo_gym_sandbox_id"] for one in series}


def test_the_joined_file_has_one_resource_for_each_rollout(demo_stack):
    def resources() -> dict[tuple[str, str], set[str]]:
        keys: dict[tuple[str, str], set[str]] = defaultdict(set)
        for resource_spans in demo_stack.joined():
            resource = {one["key"]: one["value"]["stringValue"] for one in resource_spans["resource"]["attributes"]}
            rollout = (resource[names.NEMO_RUN_ID], resource[names.NEMO_GYM_ROLLOUT_ID])
            keys[rollout].add(repr(sorted(resource)))
        return keys

    wait_until(lambda: bool(resources()), timeout_s=60, what="a line of the joined file", interval_s=1)
    assert all(len(keys) == 1 for keys in resources().values())
    rollouts = Counter(run for run, _ in resources())
    assert rollouts.most_common(1)[0][1] <= len(fleet_rollouts())


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("sum(sandgauge_poller_leaks) > 0", id="a leak"),
        pytest.param('sum(sandgauge_poller_reads{kind="sample", outcome!="ok"}) > 0', id="missed readings"),
        pytest.param('gym_sandbox_memory_total_mib{nemo_gym_sandbox_sample_scope="node"}', id="a node's numbers"),
        pytest.param(
            'gym_sandbox_spans_calls{span_name="gym.sandbox.start", status_code="STATUS_CODE_ERROR"}',
            id="a failed start",
        ),
    ],
)
def test_the_demo_shows(demo_stack, expression):
    wait_until(lambda: bool(demo_stack.query(expression)), timeout_s=120, what=expression, interval_s=1)


def test_the_whole_stack_keeps_within_its_memory(demo_stack):
    listed = demo_stack.docker.run("stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}} {{.MemPerc}}")
    print(f"\n{listed}")
    assert all(float(line.split()[-1].rstrip("%")) < 80 for line in listed.splitlines())


def test_the_image_of_the_poller_is_not_root_and_has_nothing_to_build_or_install_with(demo_stack):
    (shown,) = json.loads(demo_stack.docker.run("image", "inspect", "sandgauge-poller:local"))
    (base,) = json.loads(
        demo_stack.docker.run("image", "inspect", f"python:{shipped_settings()['PYTHON_VERSION']}-slim")
    )
    print(f"\nthe poller's image adds {(shown['Size'] - base['Size']) / 1e6:.0f} MB to its base")
    config = shown["Config"]
    assert config["User"] == "10002:10002"
    assert config["Healthcheck"]["Test"] == ["CMD", "sandgauge", "health"]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    tools = "import importlib.util as u; print([n for n in ('pip', 'setuptools', 'hatchling') if u.find_spec(n)])"
    assert demo_stack.compose("exec", "-T", "poller", "python", "-c", tools).strip() == "[]"
