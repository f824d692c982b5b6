"""Rollouts of stock Gym with the emitter, through a real Collector and the poller, and back."""

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from sandgauge_schemas import names
from support.joined_pipeline import joined_pipeline
from support.otlp_sink import OtlpSink
from support.plain_provider import ON
from support.sandbox_images import SANDBOX_IMAGE
from support.scenario_run import GROUPS_ENABLED, TelemetrySetup
from support.stock_gym import stock_gym

pytestmark = pytest.mark.integration

NO_HOST = TelemetrySetup(lens=False, host=False)
REQUEST, START, STOP = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START, names.SPAN_GYM_SANDBOX_STOP
ALLOCATION, SAMPLE, SUMMARY = (
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
)
RUN_ID, ROLLOUT_ID = names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID
REQUEST_ID, SANDBOX_ID = names.NEMO_GYM_SANDBOX_REQUEST_ID, names.NEMO_GYM_SANDBOX_ID
SERVICE = names.NEMO_GYM_SANDBOX_SERVICE_NAME
JOIN_KEYS = (RUN_ID, ROLLOUT_ID, REQUEST_ID)
RUN = {"NEMO_GYM_OTEL_RUN_ID": "run-1"}
INTERVAL = {
    "NEMO_GYM_CONFIG_DICT": json.dumps({"telemetry": {"sandbox_resource_sample_interval_seconds": 1}}),
}


@dataclass(frozen=True)
class Outcome:
    setup: TelemetrySetup
    seen: dict[str, Any]
    backends: OtlpSink
    lines: list[dict[str, Any]]
    complaints: list[str]

    def of(self, name):
        return self.backends.spans(name)

    @property
    def sandboxes(self):
        """The records of each sandbox that was to be read, by its id."""
        found = defaultdict(list)
        for span in self.backends.spans():
            if span.attributes.get(SANDBOX_ID) in self.seen["ids"].values():
                found[span.attributes[SANDBOX_ID]].append(span)
        return found


@pytest.fixture(scope="module", params=[NO_HOST, GROUPS_ENABLED], ids=["no-host", "gyms-spans"])
def outcome(request, tmp_path_factory):
    """Let three rollouts go by, and keep what the Collector put out.

    The poller is told of the deletion beforehand only where Gym says afterwards that it is done: else it would wait for
    that, and finds out by itself much sooner.
    """
    directory, setup = tmp_path_factory.mktemp("gym-run"), request.param
    with joined_pipeline(
        directory,
        # Without the run's own wish the program would not live to see a second reading.
        sampling={"collection_interval": "60s", "min_interval": "500ms"},
        tracking={"orphan_grace": "1s"},
    ) as running:
        environment = (
            ON
            | RUN
            | INTERVAL
            | {
                "OTEL_EXPORTER_OTLP_ENDPOINT": running.otelcol.endpoint,
                "OTEL_BSP_SCHEDULE_DELAY": "500",
                "SANDGAUGE_POLLER_ENDPOINT": running.poller.endpoint if setup.groups else "",
                "OPEN_SANDBOX_DOMAIN": running.osb.url,
                "SCENARIO_SPAN_GROUPS": ",".join(setup.groups),
            }
        )
        if setup.host:
            environment["SCENARIO_HOST"] = "yes"
        program = ("-m", "support.gym_scenarios", "run", "read_rollouts")
        done = stock_gym(lens=setup.lens).run(*program, environment=environment)
        seen = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))["seen"]
        running.backends.wait_for(lambda sink: len(sink.spans(SUMMARY)) == len(seen["ids"]))
    return Outcome(setup, seen, running.backends, running.joined_lines(), running.complaints())


def test_all_records_of_a_sandbox_share_run_rollout_and_request_and_stand_in_one_trace(outcome):
    rollout_of = {sandbox: rollout for rollout, sandbox in outcome.seen["ids"].items()}
    requests = {span.attributes[REQUEST_ID]: span for span in outcome.of(REQUEST)}
    assert len(outcome.sandboxes) == 2
    for sandbox_id, spans in outcome.sandboxes.items():
        kinds = {span.name for span in spans}
        assert kinds >= {START, ALLOCATION, SAMPLE, SUMMARY}
        assert (STOP in kinds) == bool(outcome.setup.groups)
        (keys,) = {tuple(span.attributes[key] for key in JOIN_KEYS) for span in spans}
        assert keys[:2] == ("run-1", rollout_of[sandbox_id])
        request = requests[keys[2]]
        assert tuple(request.attributes[key] for key in JOIN_KEYS) == keys
        assert len({span.trace_id for span in spans}) == 1
        if outcome.setup.groups:
            assert request.trace_id == spans[0].trace_id


def test_the_interval_of_gyms_own_configuration_is_followed(outcome):
    for spans in outcome.sandboxes.values():
        assert len([span for span in spans if span.name == SAMPLE]) >= 2


def test_the_reading_before_deletion_is_there_and_marked(outcome):
    for spans in outcome.sandboxes.values():
        samples = sorted((span for span in spans if span.name == SAMPLE), key=lambda span: span.end_ns)
        marked = [span.attributes.get(names.NEMO_GYM_SANDBOX_SAMPLE_FINAL, False) for span in samples]
        assert marked == [False] * (len(samples) - 1) + [bool(outcome.setup.groups)]


def test_what_was_requested_submitted_and_allocated_stay_apart(outcome):
    for spans in outcome.sandboxes.values():
        (summary,) = [span for span in spans if span.name == SUMMARY]
        told = summary.attributes
        assert told[f"{names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED}.memory_mib"] == 512
        assert told[f"{names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS}.memory_mib"] == 512.0
        assert told[f"{names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS}.memory_mib"] == 256.0
        assert told[f"{names.allocation_component_limits_prefix(0)}.memory_mib"] == 512.0
        assert told[names.NEMO_GYM_SANDBOX_END_REASON] == ("stopped" if outcome.setup.groups else "gone")
        assert told[names.NEMO_GYM_SANDBOX_LEAKED] is False


def test_the_failed_service_shows_as_requested_and_never_started(outcome):
    services = {span.attributes[SERVICE]: span for span in outcome.of(REQUEST) if SERVICE in span.attributes}
    starts = {span.attributes[REQUEST_ID]: span for span in outcome.of(START)}
    assert set(services) == {"web", "db"}
    assert SANDBOX_ID in starts[services["web"].attributes[REQUEST_ID]].attributes
    failed = starts[services["db"].attributes[REQUEST_ID]]
    assert SANDBOX_ID not in failed.attributes
    assert failed.is_error
    for span in (*services.values(), failed):
        assert (span.attributes[RUN_ID], span.attributes[ROLLOUT_ID]) == ("run-1", "9-2")


def test_the_joined_file_groups_every_record_by_its_rollout(outcome):
    kinds = {REQUEST, START, ALLOCATION, SAMPLE, SUMMARY} | ({STOP} if outcome.setup.groups else set())
    found = defaultdict(set)
    for line in outcome.lines:
        for resource in line["resourceSpans"]:
            keys = {one["key"]: one["value"].get("stringValue") for one in resource["resource"]["attributes"]}
            for scope in resource["scopeSpans"]:
                found[keys.get(RUN_ID), keys.get(ROLLOUT_ID)] |= {span["name"] for span in scope["spans"]}
    for rollout_id in outcome.seen["ids"]:
        assert found["run-1", rollout_id] >= kinds
    assert found["run-1", "9-2"] >= {REQUEST, START}


def test_every_span_came_once_and_nothing_went_wrong_on_the_way(outcome):
    spans = outcome.backends.spans()
    assert len({(span.trace_id, span.span_id) for span in spans}) == len(spans)
    assert outcome.complaints == []


@pytest.mark.parametrize("setup", [NO_HOST, GROUPS_ENABLED], ids=["no-host", "gyms-spans"])
def test_sandboxes_of_a_real_control_plane_are_recorded_as_sent(opensandbox_server, otlp_sink, setup):
    """The real server takes what Gym's client sends, and makes a container of it."""
    environment = (
        ON
        | RUN
        | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": otlp_sink.endpoint,
            "OPEN_SANDBOX_DOMAIN": opensandbox_server.endpoint,
            "OPEN_SANDBOX_API_KEY": opensandbox_server.api_key,
            "SCENARIO_IMAGE": SANDBOX_IMAGE,
            "SCENARIO_SPAN_GROUPS": ",".join(setup.groups),
        }
    )
    if setup.host:
        environment["SCENARIO_HOST"] = "yes"
    program = ("-m", "support.gym_scenarios", "run", "opensandbox_limits")
    done = stock_gym(lens=setup.lens).run(*program, environment=environment)
    seen = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))["seen"]
    starts = {span.attributes[SANDBOX_ID]: span.attributes for span in otlp_sink.spans(START)}
    assert list(starts) == seen["ids"]
    assert {told[names.NEMO_GYM_SANDBOX_SCOPE] for told in starts.values()} == {opensandbox_server.endpoint}
    limits = f"{names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS}.memory_mib"
    requests = f"{names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS}.memory_mib"
    assert [(told[limits], told.get(requests)) for told in starts.values()] == [(1536.0, None), (1536.0, 1536.0)]
    asked = [span.attributes[REQUEST_ID] for span in otlp_sink.spans(REQUEST)]
    assert [told[REQUEST_ID] for told in starts.values()] == asked
