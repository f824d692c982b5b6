import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_demo.outcome import Outcome, read_outcome
from sandgauge_schemas import names
from sandgauge_schemas.records import (
    Allocation,
    AllocationRecord,
    ComponentAllocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    StartRecord,
    Statistics,
    Submission,
    SummaryRecord,
)
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.otlp_json import START_NS, from_resource, key_values, span, traces

RUN = "run-1"


def line(name, record, *, at_s=0, span_id=None, **more):
    """Return a line of a joined file: the join keys of the rollout stand on the resource."""
    attributes = record.to_attributes()
    group = {key: attributes.pop(key) for key in (names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID) if key in attributes}
    one = span(name, attributes) | more
    one["startTimeUnixNano"] = str(START_NS + at_s * 10**9)
    if span_id is not None:
        one["spanId"] = span_id
    return json.dumps(traces(from_resource(group, one, scope="sandgauge.joined"))) + "\n"


def keys(rollout="0-0", request="request-1", sandbox=None):
    return JoinKeys(run_id=RUN, rollout_id=rollout, request_id=request, sandbox_id=sandbox, provider="opensandbox")


REQUEST = RequestRecord(keys=keys(), requested=SandboxResources(cpu=8, memory_mib=4096))
START = StartRecord(
    keys=keys(sandbox="a"),
    submission=Submission(limits=SandboxResourceAmounts(cpu=4.0, memory_mib=2048.0), sdk_default=False),
)
ALLOCATION = AllocationRecord(
    keys=keys(sandbox="a"),
    status=ReadingStatus(source=names.ResourceSource.OPENSANDBOX_INSPECT_DOCKER),
    allocation=Allocation(
        components=(
            ComponentAllocation(name="sandbox", limits=SandboxResourceAmounts(cpu=3.5, memory_mib=1.5, gpu=2)),
        ),
        notes=("rounded",),
    ),
)
SAMPLE = SampleRecord(keys=keys(sandbox="a"), status=ReadingStatus(source="opensandbox.execd"), memory_used_mib=1.25)
SUMMARY = SummaryRecord(
    keys=keys(sandbox="a"),
    end_reason=names.EndReason.STOPPED,
    leaked=False,
    readings_count=2,
    statistics={"memory_used_mib": Statistics(0.5, 1.0, 1.25, 1.25)},
    memory_scope=names.SampleScope.SANDBOX,
)
LINES = (
    line(names.SPAN_GYM_SANDBOX_REQUEST, REQUEST),
    line(names.SPAN_GYM_SANDBOX_START, START),
    line(names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, ALLOCATION),
    line(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, SAMPLE, span_id="01" * 8),
    line(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, SAMPLE, span_id="02" * 8),
    line(names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY, SUMMARY),
    line(names.SPAN_GYM_ROLLOUT, keys(request=None)),
)


@given(st.permutations(LINES))
def test_the_four_quantities_join_in_whatever_order_they_come(lines):
    outcome = read_outcome(lines)
    (row,) = outcome.sandboxes
    assert (row.request, row.start, row.allocation, row.summary) == (REQUEST, START, ALLOCATION, SUMMARY)
    assert (row.rollout_id, row.sandbox_id, row.is_settled, row.was_refused) == ("0-0", "a", True, False)
    assert (outcome.rollouts_ended, outcome.readings) == (1, 2)


def test_what_comes_twice_counts_once():
    assert read_outcome(LINES + LINES) == read_outcome(LINES)


@pytest.mark.parametrize("missing", ["start", "allocation", "summary"])
def test_a_quantity_without_a_record_is_none_and_not_taken_from_another(missing):
    name = {
        "start": names.SPAN_GYM_SANDBOX_START,
        "allocation": names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
        "summary": names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    }[missing]
    (row,) = read_outcome(one for one in LINES if f'"name": "{name}"' not in one).sandboxes
    assert getattr(row, missing) is None
    assert row.request == REQUEST


def test_every_sandbox_of_a_request_has_a_row_before_it_is_up():
    request = RequestRecord(keys=keys(), count=3)
    rows = read_outcome([line(names.SPAN_GYM_SANDBOX_REQUEST, request), LINES[1]]).sandboxes
    assert [row.sandbox_id for row in rows] == ["a", None, None]
    assert not any(row.is_settled or row.was_refused for row in rows)


def test_a_start_without_an_id_is_a_refusal_and_says_why():
    event = {"name": "exception", "attributes": key_values({"exception.type": "SandboxCreateError"})}
    refused = line(names.SPAN_GYM_SANDBOX_START, StartRecord(keys=keys()), events=[event])
    (row,) = read_outcome([LINES[0], refused]).sandboxes
    assert (row.was_refused, row.is_settled, row.error_type) == (True, True, "SandboxCreateError")


def test_rollouts_and_their_requests_stand_in_order_of_time():
    requests = [("1-0", "late", 5), ("0-0", "second", 3), ("0-0", "first", 1), ("1-0", "early", 2)]
    rows = read_outcome(
        line(names.SPAN_GYM_SANDBOX_REQUEST, RequestRecord(keys=keys(rollout, request)), at_s=at_s)
        for rollout, request, at_s in requests
    ).sandboxes
    assert [row.request.keys.request_id for row in rows] == ["first", "second", "early", "late"]


def test_of_two_summaries_the_last_counts():
    leaked = SummaryRecord(keys=keys(sandbox="a"), end_reason=names.EndReason.GONE, leaked=True)
    (row,) = read_outcome([*LINES, line(names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY, leaked)]).sandboxes
    assert row.summary == leaked


def test_a_line_that_is_still_being_written_is_left_alone():
    half = LINES[1][: len(LINES[1]) // 2]
    assert read_outcome([LINES[0], half]) == read_outcome([LINES[0]])


def test_an_empty_file_says_nothing():
    assert read_outcome([]) == Outcome()
