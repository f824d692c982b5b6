"""Stock Gym's own docker provider on a real daemon: requested, allocated and used, and nothing in between."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandgauge_schemas import names
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import AllocationRecord, SummaryRecord, UsageRecord
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.joined_pipeline import joined_pipeline
from support.otlp_sink import OtlpSink
from support.plain_provider import ON
from support.sandbox_images import SANDBOX_IMAGE, import_sandbox_images
from support.scenario_run import GROUPS_ENABLED, TelemetrySetup
from support.stock_gym import stock_gym

pytestmark = pytest.mark.integration

NO_HOST = TelemetrySetup(lens=False, host=False)
REQUEST, START = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START
ALLOCATION, SAMPLE, SUMMARY = (
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
)
SECRET = "c4nary-of-a-sandbox"
CPU, MEMORY_MIB = 0.5, 128
BUSY, LEFT = "9-0", "9-1"


@dataclass(frozen=True)
class Outcome:
    setup: TelemetrySetup
    scope: str
    machine: str
    ids: dict[str, str]
    busy_s: float
    busy_until_s: float
    backends: OtlpSink
    written: str = field(repr=False)
    complaints: list[str]

    def of(self, name, rollout_id):
        """Return what was said of the sandbox of a rollout."""
        spans = self.backends.spans(name)
        return [span for span in spans if span.attributes.get(names.NEMO_GYM_SANDBOX_ID) == self.ids[rollout_id]]

    def only(self, name, rollout_id, record):
        (span,) = self.of(name, rollout_id)
        return record.from_attributes(span.attributes)

    def usage(self, rollout_id):
        return [UsageRecord.from_attributes(span.attributes) for span in self.of(SAMPLE, rollout_id)]


@pytest.fixture(scope="module", params=[NO_HOST, GROUPS_ENABLED], ids=["no-host", "gyms-spans"])
def outcome(request, docker_daemon, tmp_path_factory):
    """Let two rollouts go by, and keep what the Collector put out and what the poller wrote."""
    import_sandbox_images(docker_daemon)
    directory, setup = tmp_path_factory.mktemp("gym-docker"), request.param
    deployment = {"name": "machine", "provider": "docker", "endpoint": docker_daemon.host}
    with joined_pipeline(
        directory,
        deployments=[deployment],
        sampling={"collection_interval": "2s", "min_interval": "1s"},
        tracking={"orphan_grace": "1s", "summary_delay": "5s"},
    ) as running:
        environment = ON | {
            "NEMO_GYM_OTEL_RUN_ID": "run-1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": running.otelcol.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "500",
            "DOCKER_HOST": docker_daemon.host,
            "HOME": str(directory),
            "SCENARIO_IMAGE": SANDBOX_IMAGE,
            "SCENARIO_SECRET": SECRET,
            "SCENARIO_SPAN_GROUPS": ",".join(setup.groups),
        }
        if setup.host:
            environment["SCENARIO_HOST"] = "yes"
        program = ("-m", "support.gym_scenarios", "run", "docker_rollouts")
        done = stock_gym(lens=setup.lens).run(*program, environment=environment)
        seen: dict[str, Any] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
        running.backends.wait_for(lambda sink: len(sink.spans(SUMMARY)) == len(seen["seen"]["ids"]))
    files = [path for path in directory.rglob("*") if path.is_file()]
    return Outcome(
        setup=setup,
        scope=docker_daemon.host,
        machine=docker_daemon.docker("info", "--format", "{{.Name}}"),
        ids=seen["seen"]["ids"],
        busy_s=seen["seen"]["busy_s"],
        busy_until_s=seen["seen"]["busy_until_s"],
        backends=running.backends,
        written="".join(path.read_bytes().decode(errors="replace") for path in files),
        complaints=running.complaints(),
    )


def test_nothing_went_wrong(outcome):
    assert outcome.complaints == []


def test_a_summary_tells_what_was_requested_allocated_and_used(outcome):
    summary = outcome.only(SUMMARY, BUSY, SummaryRecord)
    assert (summary.requested.cpu, summary.requested.memory_mib) == (CPU, MEMORY_MIB)
    (component,) = summary.allocation.components
    assert component.limits == SandboxResourceAmounts(cpu=CPU, memory_mib=MEMORY_MIB)
    assert summary.usage_source == "docker.stats"
    cores = summary.statistics["cpu_used_cores"]
    print(f"\n{summary.readings_count} readings, {summary.readings_missed} missed, cores {cores}", end=" ")
    print(f"of {CPU}, CPU time {summary.cpu_time_s} s, MiB {summary.statistics['memory_working_set_mib']}", end=" ")
    print(f"; the sandbox's own shell counts {outcome.busy_s} s")
    assert 0 < cores.mean <= cores.max < 1.1 * CPU
    # After the last reading it was busy for a while, up to its limit.
    last_s = max(reading.timestamp_ms or 0 for reading in outcome.usage(BUSY)) / 1000
    unread_s = CPU * max(0.0, outcome.busy_until_s - last_s)
    assert outcome.busy_s - unread_s - 0.5 < summary.cpu_time_s < outcome.busy_s + 0.5
    assert 0 < summary.statistics["memory_working_set_mib"].max < MEMORY_MIB


def test_nothing_was_submitted(outcome):
    prefixes = (names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS, names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS)
    for span in outcome.backends.spans():
        assert not [key for key in span.attributes if key.startswith(prefixes)]
        assert names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT not in span.attributes


def test_an_allocation_is_the_daemons_and_names_the_container_and_its_machine(outcome):
    record = outcome.only(ALLOCATION, BUSY, AllocationRecord)
    assert (record.status.source, record.status.error_type) == ("docker.inspect", None)
    (component,) = record.allocation.components
    assert (component.name, component.requests) == ("sandbox", SandboxResourceAmounts())
    assert record.allocation.notes == ()
    designator = record.allocation.designator
    assert (designator.kind, designator.scope) == ("docker-container", outcome.scope)
    assert re.fullmatch(r"[0-9a-f]{64}", designator.id)
    assert record.allocation.host == Identity("docker-host", outcome.scope, outcome.machine)


def test_a_sandbox_without_limits_is_placed_and_its_use_is_known(outcome):
    record = outcome.only(ALLOCATION, LEFT, AllocationRecord)
    assert record.status.error_type == "no_supported_quantity"
    assert record.allocation.designator is not None
    assert [one for one in outcome.usage(LEFT) if one.memory_working_set_mib]
    summary = outcome.only(SUMMARY, LEFT, SummaryRecord)
    assert summary.usage_source == "docker.stats"
    assert summary.requested == type(summary.requested)()


def test_only_what_sees_the_container_from_outside_is_read(outcome):
    for rollout_id in (BUSY, LEFT):
        assert {one.status.source for one in outcome.usage(rollout_id)} == {"docker.stats"}


def test_ends_are_told_by_gym_or_found_out(outcome):
    ends = {rollout: outcome.only(SUMMARY, rollout, SummaryRecord).end_reason for rollout in (BUSY, LEFT)}
    assert ends == {BUSY: "stopped" if outcome.setup.groups else "gone", LEFT: "gone"}


def test_every_record_has_the_keys_of_its_rollout(outcome):
    for rollout_id in (BUSY, LEFT):
        requests = {span.attributes[names.NEMO_GYM_SANDBOX_REQUEST_ID] for span in outcome.of(START, rollout_id)}
        for name in (START, ALLOCATION, SAMPLE, SUMMARY):
            for span in outcome.of(name, rollout_id):
                assert span.attributes[names.NEMO_RUN_ID] == "run-1"
                assert span.attributes[names.NEMO_GYM_ROLLOUT_ID] == rollout_id
                assert {span.attributes[names.NEMO_GYM_SANDBOX_REQUEST_ID]} == requests


def test_no_secret_of_a_container_is_sent_or_written(outcome):
    assert SECRET not in outcome.written
    assert not [span for span in outcome.backends.spans() if SECRET in repr(span)]
