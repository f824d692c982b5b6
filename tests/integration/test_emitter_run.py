"""A run through the emitter's neutral API, a real Collector with the shipped configuration, the poller, and back."""

import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from sandgauge_schemas import names
from support.delivered import GAUGES, closing_points
from support.demo_run import assert_grouped_by_rollout
from support.joined_pipeline import joined_pipeline
from support.otlp_sink import OtlpSink

pytestmark = pytest.mark.integration

RUN_ID = "run-emitter"
ROLLOUTS = {"0-0", "0-1", "1-0", "1-1", "2-0"}
SANDBOXES, REFUSED, REQUESTS = 6, 1, 6
REQUEST, START, STOP, ROLLOUT = (
    names.SPAN_GYM_SANDBOX_REQUEST,
    names.SPAN_GYM_SANDBOX_START,
    names.SPAN_GYM_SANDBOX_STOP,
    names.SPAN_GYM_ROLLOUT,
)
ALLOCATION, SAMPLE, SUMMARY = (
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
)
JOIN_KEYS = {names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID, names.NEMO_GYM_SANDBOX_REQUEST_ID}


@dataclass(frozen=True)
class Outcome:
    backends: OtlpSink
    lines: list[dict[str, Any]]
    complaints: list[str]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Let the run go by once, and keep what the Collector put out."""
    directory = tmp_path_factory.mktemp("emitter-run")
    with joined_pipeline(directory, sampling={"collection_interval": "2s"}) as running:
        backends = running.backends
        gym_run(running.osb.url, running.otelcol.endpoint)
        backends.wait_for(lambda seen: len(seen.spans(SUMMARY)) == SANDBOXES)
        backends.wait_for(lambda seen: len(closing_points(seen)) == SANDBOXES * len(GAUGES))
    return Outcome(backends, running.joined_lines(), running.complaints())


def gym_run(opensandbox, otelcol):
    command = [sys.executable, "-m", "sandgauge_demo.gym_run", "--run-id", RUN_ID, "--rollouts", str(len(ROLLOUTS))]
    done = subprocess.run(
        [*command, "--opensandbox", opensandbox, "--collector", otelcol],
        env={"PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_span_that_belongs_to_the_run_came_once(outcome):
    spans = outcome.backends.spans()
    assert len({(span.trace_id, span.span_id) for span in spans}) == len(spans)
    counts = Counter(span.name for span in spans)
    assert counts.pop(SAMPLE) >= 3 * SANDBOXES
    assert counts == {
        REQUEST: REQUESTS,
        START: SANDBOXES + REFUSED,
        STOP: SANDBOXES,
        ROLLOUT: len(ROLLOUTS),
        ALLOCATION: SANDBOXES,
        SUMMARY: SANDBOXES,
    }


@pytest.mark.parametrize("name", [REQUEST, START, STOP, ALLOCATION, SAMPLE, SUMMARY])
def test_every_sandbox_record_has_run_rollout_and_request_id(outcome, name):
    for span in outcome.backends.spans(name):
        assert span.attributes.keys() >= JOIN_KEYS
        assert span.attributes[names.NEMO_RUN_ID] == RUN_ID
        assert span.attributes[names.NEMO_GYM_ROLLOUT_ID] in ROLLOUTS


def test_every_data_point_has_run_rollout_request_and_sandbox_id(outcome):
    points = [point for point in outcome.backends.points() if point.name in GAUGES]
    assert len(points) > SANDBOXES * len(GAUGES)
    for point in points:
        assert point.attributes.keys() >= JOIN_KEYS | {names.NEMO_GYM_SANDBOX_ID}


def test_all_but_requests_and_failed_starts_have_a_sandbox_id(outcome):
    without = [
        span
        for span in outcome.backends.spans()
        if span.name != ROLLOUT and names.NEMO_GYM_SANDBOX_ID not in span.attributes
    ]
    assert Counter(span.name for span in without) == {REQUEST: REQUESTS, START: REFUSED}
    assert all(span.is_error for span in without if span.name == START)


def test_records_of_a_sandbox_agree_about_its_keys_and_stand_in_the_start_spans_trace(outcome):
    by_sandbox = defaultdict(list)
    for span in outcome.backends.spans():
        if names.NEMO_GYM_SANDBOX_ID in span.attributes:
            by_sandbox[span.attributes[names.NEMO_GYM_SANDBOX_ID]].append(span)
    assert len(by_sandbox) == SANDBOXES
    for spans in by_sandbox.values():
        assert len({tuple(span.attributes[key] for key in sorted(JOIN_KEYS)) for span in spans}) == 1
        assert len({span.trace_id for span in spans}) == 1
        (start,) = [span for span in spans if span.name == START]
        assert {span.parent_span_id for span in spans if span.name in (ALLOCATION, SAMPLE, SUMMARY)} == {start.span_id}


def test_what_was_asked_sent_and_in_force_stay_apart(outcome):
    """The one request whose limits were clamped: 8 cores and 16 GiB asked, 4 cores and 8 GiB sent."""
    requested = f"{names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED}.cpu"
    submitted = f"{names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS}.cpu"
    in_force = f"{names.allocation_component_limits_prefix(0)}.cpu"
    (summary,) = [span for span in outcome.backends.spans(SUMMARY) if span.attributes.get(requested) == 8.0]
    assert (summary.attributes[submitted], summary.attributes[in_force]) == (4.0, 4.0)
    (allocation,) = [
        span
        for span in outcome.backends.spans(ALLOCATION)
        if span.attributes[names.NEMO_GYM_SANDBOX_ID] == summary.attributes[names.NEMO_GYM_SANDBOX_ID]
    ]
    assert allocation.attributes[in_force] == 4.0
    assert not {requested, submitted} & allocation.attributes.keys()


def test_the_kill_for_memory_is_told_apart_from_a_deletion(outcome):
    ends = Counter(
        (span.attributes[names.NEMO_GYM_SANDBOX_END_REASON], span.attributes.get(names.NEMO_GYM_SANDBOX_END_OOM_KILLED))
        for span in outcome.backends.spans(SUMMARY)
    )
    assert ends["failed", True] == 1
    assert sum(count for (reason, killed), count in ends.items() if reason == "stopped" and not killed) == 5


def test_the_joined_file_has_one_resource_for_each_rollout_at_most_once_in_a_line(outcome):
    assert_grouped_by_rollout(outcome.lines, RUN_ID, ROLLOUTS)


def test_the_joined_file_holds_every_span_once(outcome):
    ids = [
        (span["traceId"], span["spanId"])
        for line in outcome.lines
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    assert Counter(ids) == Counter((span.trace_id, span.span_id) for span in outcome.backends.spans())


def test_nothing_went_wrong_on_the_way(outcome):
    assert outcome.complaints == []
