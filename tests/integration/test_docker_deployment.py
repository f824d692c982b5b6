"""A Docker daemon as a deployment: how its containers live and end, as the poller tells it."""

import json
import subprocess
import sys

import pytest

from sandgauge_schemas import names
from sandgauge_schemas.records import AllocationRecord, SummaryRecord, UsageRecord
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.feed import feed, rollout_span, start_span, stop_span
from support.running_poller import RunningPoller
from support.sandbox_images import SANDBOX_IMAGE, import_sandbox_images

pytestmark = pytest.mark.integration

ALLOCATION, SAMPLE, SUMMARY = (
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
)
DOCKER = "docker"
SECRET = "s3cret-of-a-container"
LIVE = ("sleep", "600")
HOG = "x=0123456789abcdef; while :; do x=$x$x; done"


@pytest.fixture
def run(docker_daemon):
    """Run a container of Gym's kind and return its name."""
    import_sandbox_images(docker_daemon)
    made = []

    def run(name, *command, options=()):
        label = ("--label", "nemo-gym.sandbox=1", "--env", f"TOKEN={SECRET}")
        docker_daemon.docker("run", "--detach", "--name", name, *label, *options, SANDBOX_IMAGE, *command)
        made.append(name)
        return name

    yield run
    docker_daemon.docker("rm", "--force", *made)


@pytest.fixture
def poller(docker_daemon, otlp_sink, tmp_path):
    config = {
        "deployments": [{"name": "machine", "provider": "docker", "endpoint": docker_daemon.host}],
        "sampling": {"collection_interval": "2s", "min_interval": "1s"},
        "allocation": {"refresh_interval": "3s"},
        "tracking": {"orphan_grace": "2s"},
        "export": {"endpoint": otlp_sink.endpoint},
    }
    with RunningPoller(tmp_path, config) as running:
        yield running
    assert running.complaints() == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def start(poller, *names_, **span):
    feed(poller.endpoint, *(start_span(name, provider=DOCKER, **span) for name in names_))


def of(sink, name, sandbox_id):
    return [span for span in sink.spans(name) if span.attributes[names.NEMO_GYM_SANDBOX_ID] == sandbox_id]


def good(sink, sandbox_id):
    found = [UsageRecord.from_attributes(span.attributes) for span in of(sink, SAMPLE, sandbox_id)]
    return [reading for reading in found if reading.status.error_type is None]


def summaries(sink, *sandbox_ids):
    """Wait for the summary of each and return the last of them."""
    sink.wait_for(lambda seen: all(of(seen, SUMMARY, one) for one in sandbox_ids))
    return {one: SummaryRecord.from_attributes(of(sink, SUMMARY, one)[-1].attributes) for one in sandbox_ids}


def test_limits_in_every_form_are_what_docker_enforces(run, poller, otlp_sink):
    shapes = {
        "cpus": (("--cpus", "0.6", "--memory", "64m"), {"cpu": 0.6, "memory_mib": 64.0}),
        "quota": (("--cpu-quota", "20000", "--cpu-period", "50000"), {"cpu": 0.4}),
        "cpuset": (("--cpuset-cpus", "0", "--cpus", "1.5"), {"cpu": 1.0}),
        "weights": (("--cpu-shares", "512", "--memory-reservation", "32m"), {}),
    }
    for name, (options, _) in shapes.items():
        run(name, *LIVE, options=options)
    start(poller, *shapes)
    otlp_sink.wait_for(lambda seen: all(of(seen, ALLOCATION, name) for name in shapes))
    for name, (_, expected) in shapes.items():
        record = AllocationRecord.from_attributes(of(otlp_sink, ALLOCATION, name)[0].attributes)
        limits = [component.limits for component in record.allocation.components]
        assert limits == ([SandboxResourceAmounts(**expected)] if expected else [])
        assert record.allocation.designator is not None


def test_a_change_of_limits_is_seen_at_the_next_look(run, docker_daemon, poller, otlp_sink):
    name = run("changed", *LIVE, options=("--cpus", "0.5"))
    start(poller, name)
    otlp_sink.wait_for(lambda seen: of(seen, ALLOCATION, name))
    docker_daemon.docker("update", "--cpus", "1.5", name)
    otlp_sink.wait_for(lambda seen: len(of(seen, ALLOCATION, name)) == 2)
    key = f"{names.allocation_component_limits_prefix(0)}.cpu"
    assert [span.attributes[key] for span in of(otlp_sink, ALLOCATION, name)] == [0.5, 1.5]


def test_ends_as_the_daemon_tells_them(run, docker_daemon, poller, otlp_sink):
    wait = "until test -e /now; do sleep 0.1; done"
    run("done", "sh", "-c", wait)
    run("failed", "sh", "-c", f"{wait}; exit 3")
    run("killed", "sh", "-c", f"{wait}; {HOG}", options=("--memory", "32m", "--memory-swap", "32m"))
    run("removed", *LIVE)
    start(poller, "done", "failed", "killed", "removed", "never-was")
    alive = ("done", "failed", "killed", "removed")
    otlp_sink.wait_for(lambda seen: all(good(seen, one) for one in alive))
    for name in alive[:3]:
        docker_daemon.docker("exec", name, "sh", "-c", ": > /now")
    docker_daemon.docker("rm", "--force", "removed")
    found = summaries(otlp_sink, *alive, "never-was")
    reasons = {name: (summary.end_reason, summary.oom_killed) for name, summary in found.items()}
    assert reasons == {
        "done": ("terminated", False),
        "failed": ("failed", False),
        "killed": ("failed", True),
        "removed": ("gone", None),
        "never-was": ("gone", None),
    }
    assert all(summary.leaked is False for summary in found.values())


def test_a_pause_is_no_end_and_a_restart_is_counted(run, docker_daemon, poller, otlp_sink):
    name = run("paused", *LIVE)
    start(poller, name)
    otlp_sink.wait_for(lambda seen: good(seen, name))
    docker_daemon.docker("pause", name)
    seen = len(of(otlp_sink, SAMPLE, name))
    otlp_sink.wait_for(lambda sink: len(of(sink, SAMPLE, name)) >= seen + 3)
    docker_daemon.docker("unpause", name)
    docker_daemon.docker("restart", "--time", "0", name)
    seen = len(good(otlp_sink, name))
    otlp_sink.wait_for(lambda sink: len(good(sink, name)) >= seen + 3)
    assert not of(otlp_sink, SUMMARY, name)
    feed(poller.endpoint, stop_span(name, provider=DOCKER))
    docker_daemon.docker("rm", "--force", name)
    summary = summaries(otlp_sink, name)[name]
    assert (summary.end_reason, summary.resets) == ("stopped", 1)


def test_what_outlives_its_stop_or_its_rollout_is_a_leak(run, docker_daemon, poller, otlp_sink):
    trace_id = "ab" * 16
    for name in ("stopped", "orphan"):
        run(name, *LIVE)
    start(poller, "stopped")
    start(poller, "orphan", trace_id=trace_id, parent="cd" * 8)
    otlp_sink.wait_for(lambda seen: all(good(seen, one) for one in ("stopped", "orphan")))
    feed(poller.endpoint, stop_span("stopped", provider=DOCKER), rollout_span(trace_id, "1-1", span_id="cd" * 8))
    # It is read again: the daemon still has it after the grace.
    first = summaries(otlp_sink, "stopped")["stopped"]
    assert (first.end_reason, first.leaked) == ("stopped", False)
    seen = len(good(otlp_sink, "stopped"))
    otlp_sink.wait_for(lambda sink: len(good(sink, "stopped")) >= seen + 2)
    docker_daemon.docker("rm", "--force", "stopped", "orphan")
    otlp_sink.wait_for(lambda sink: len(of(sink, SUMMARY, "stopped")) == 2 and of(sink, SUMMARY, "orphan"))
    assert {name: one.leaked for name, one in summaries(otlp_sink, "stopped", "orphan").items()} == {
        "stopped": True,
        "orphan": True,
    }


def test_the_doctor_finds_the_daemon(docker_daemon, poller):
    command = [sys.executable, "-m", "sandgauge_poller", "doctor", "--config", str(poller.config_file)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.splitlines()
    (line,) = [line for line in said if "deployment machine: " in line]
    version = docker_daemon.docker("version", "--format", "{{.Server.Version}}").partition("+")[0]
    assert f"deployment machine: Docker {version} lets its containers be inspected, and their usage be read" in line


def test_one_container_is_read_beside_a_poller(run, poller):
    run("alone", *LIVE, options=("--cpus", "0.5", "--memory", "64m"))
    command = [sys.executable, "-m", "sandgauge_poller", "read", "--json", "--config", str(poller.config_file), "alone"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 0, answer.stdout
    assert SECRET not in answer.stdout + answer.stderr
    (found,) = json.loads(answer.stdout)["deployments"]
    (usage,) = found["usage"]
    assert found["state"] == "running"
    assert found["allocation"]["components"][0]["limits"] == {"cpu": 0.5, "memory_mib": 64.0}
    assert 0 < usage["memory_working_set_mib"] < 64
    assert "reading" not in found  # no daemon is in there
