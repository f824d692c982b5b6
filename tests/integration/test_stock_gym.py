"""Stock Gym's own spans through a real Collector with the shipped configuration to the poller, and back."""

from collections import defaultdict
from dataclasses import dataclass

import pytest

from sandgauge_schemas import names
from support.delivered import GAUGES, closing_points
from support.gym_run import GymRun
from support.joined_pipeline import joined_pipeline
from support.otlp_json import captured, plain
from support.otlp_sink import OtlpSink
from support.real_collector import send

pytestmark = pytest.mark.integration

CASES = ("opensandbox", "rollout", "opensandbox_defaults", "fake_ok", "fake_fail", "cancelled_create", "borrowed")
ALLOCATION, SAMPLE, SUMMARY = (
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
)
LIMITS = {"cpu": "500m", "memory": "128Mi"}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Run every captured case once, and keep what the Collector put out."""
    directory = tmp_path_factory.mktemp("stock-gym")
    runs = {case: GymRun(captured(case)) for case in CASES}
    read = [id_ for run in runs.values() for id_ in run.sandbox_ids("opensandbox")]
    with joined_pipeline(directory, sampling={"collection_interval": "1s", "min_interval": "500ms"}) as running:
        osb, otelcol, backends = running.osb, running.otelcol, running.backends
        for sandbox_id in read:
            osb.create(id=sandbox_id, limits=LIMITS)
        for run in runs.values():
            assert send(otelcol, run.starts()) == 200
        backends.wait_for(lambda seen: _each_has(seen, SAMPLE, read, 3))
        for sandbox_id in read:
            osb.delete(sandbox_id)
        for run in runs.values():
            assert send(otelcol, run.stops()) == 200
        for run in runs.values():
            assert send(otelcol, run.rollouts()) == 200
        backends.wait_for(lambda seen: _each_has(seen, SUMMARY, read, 1))
        backends.wait_for(lambda seen: len(closing_points(seen)) == len(read) * len(GAUGES))
        asked = {one.sandbox_id for one in osb.requests() if one.sandbox_id}
    return Outcome(runs, read, backends, running.joined_lines(), asked, running.complaints())


@dataclass(frozen=True)
class Outcome:
    runs: dict
    read: list
    backends: OtlpSink
    lines: list
    asked: set
    complaints: list

    def of(self, name):
        """Spans of a name by sandbox id."""
        found = defaultdict(list)
        for span in self.backends.spans(name):
            found[span.attributes[names.NEMO_GYM_SANDBOX_ID]].append(span)
        return found


def _each_has(seen, name, sandbox_ids, count):
    found = [span.attributes.get(names.NEMO_GYM_SANDBOX_ID) for span in seen.spans(name)]
    return all(found.count(id_) >= count for id_ in sandbox_ids)


def test_one_sandbox_is_read_for_each_successful_opensandbox_start_and_no_other(outcome):
    assert set(outcome.of(ALLOCATION)) == set(outcome.of(SAMPLE)) == set(outcome.of(SUMMARY)) == set(outcome.read)
    assert len(outcome.read) == 6
    assert outcome.asked == set(outcome.read)


def test_records_stand_in_the_start_spans_trace(outcome):
    for run in outcome.runs.values():
        for sandbox_id in run.sandbox_ids("opensandbox"):
            trace_id, span_id = run.trace_of(sandbox_id)
            for name in (ALLOCATION, SAMPLE, SUMMARY):
                for span in outcome.of(name)[sandbox_id]:
                    assert (span.trace_id, span.parent_span_id) == (trace_id, span_id)


def test_one_allocation_and_one_summary_each(outcome):
    for sandbox_id in outcome.read:
        (allocation,) = outcome.of(ALLOCATION)[sandbox_id]
        assert allocation.attributes[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] == "ok"
        limits = names.allocation_component_limits_prefix(0)
        assert allocation.attributes[f"{limits}.cpu"] == 0.5
        assert allocation.attributes[f"{limits}.memory_mib"] == 128.0
        (summary,) = outcome.of(SUMMARY)[sandbox_id]
        assert summary.attributes[names.NEMO_GYM_SANDBOX_END_REASON] == "stopped"
        assert summary.attributes[names.NEMO_GYM_SANDBOX_READINGS_COUNT] >= 3
        assert summary.attributes[names.NEMO_GYM_SANDBOX_LEAKED] is False


def test_the_summary_has_the_rollout_id_that_only_the_rollout_span_knew(outcome):
    rollouts = {"a0dbbaa61ad7dec834ada52e0a8d74ff": "7-0", "530ba55966869c1fb7437d262c4af269": "7-1"}
    for spans in outcome.of(SUMMARY).values():
        (summary,) = spans
        assert summary.attributes.get(names.NEMO_GYM_ROLLOUT_ID) == rollouts.get(summary.trace_id)
        assert summary.attributes[names.NEMO_RUN_ID] == "run-abc123"


def test_gauges_carry_sandbox_and_run_and_each_series_is_closed_once_at_the_end(outcome):
    series = defaultdict(list)
    for point in outcome.backends.points():
        if point.name in GAUGES:
            assert point.attributes[names.NEMO_RUN_ID] == "run-abc123"
            series[point.name, tuple(sorted(point.attributes.items()))].append(point)
    assert {dict(key[1])[names.NEMO_GYM_SANDBOX_ID] for key in series} == set(outcome.read)
    for points in series.values():
        *readings, closing = points
        assert closing.value is None
        assert all(point.value is not None for point in readings)
        times = [point.time_ns // 10**6 for point in points]
        assert times == sorted(set(times))


def test_the_joined_file_has_each_rollout_at_most_once_in_a_line(outcome):
    keys = (names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID, names.SANDGAUGE_TRACE_GROUP)
    seen = set()
    for line in outcome.lines:
        resources = [plain(one["resource"]["attributes"]) for one in line["resourceSpans"]]
        groups = [tuple(resource.get(key) for key in keys) for resource in resources]
        assert len(groups) == len(set(groups))
        seen |= {group[1] for group in groups}
    assert {"7-0", "7-1"} <= seen


def test_the_joined_file_holds_every_record_once(outcome):
    spans = [
        span
        for line in outcome.lines
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
        if span["name"] in (ALLOCATION, SAMPLE, SUMMARY)
    ]
    ids = [span["spanId"] for span in spans]
    assert len(ids) == len(set(ids))
    assert set(ids) == {span.span_id for name in (ALLOCATION, SAMPLE, SUMMARY) for span in outcome.backends.spans(name)}


def test_nothing_went_wrong_on_the_way(outcome):
    assert outcome.complaints == []
