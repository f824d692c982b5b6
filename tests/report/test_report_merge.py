import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_report.merging.inventory import Inventory
from sandgauge_report.merging.join import sandboxes_of
from sandgauge_report.merging.quantities import Quantity
from sandgauge_report.merging.sandboxes import Creation
from sandgauge_report.reading.otlp import Span, spans
from sandgauge_schemas import names
from sandgauge_schemas.names import EndReason, Resource, ResourceSource, SampleScope
from sandgauge_schemas.records import ComponentAllocation, Statistics
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.otlp_json import START_NS, captured
from support.told_run import (
    RUN,
    TRACE,
    allocated,
    ended,
    failed,
    keys,
    line,
    merged,
    refused,
    requested,
    rollout_over,
    sampled,
    started,
    stopped,
    used,
)

A = keys()
LIFE = [
    requested(A, cpu=2.0, memory_mib=1024),
    started(A, cpu=2.0, memory_mib=1024.0),
    allocated(A, cpu=2.0, memory_mib=1024.0),
    sampled(A, 2, 100.0, total_mib=1024.0),
    sampled(A, 12, 300.0, total_mib=1024.0),
    failed(A, 22),
    stopped(A, 30),
    ended(A, 30, readings_count=2, readings_missed=1, effective_interval_s=10.0),
    rollout_over(A, 31),
]


def only(lines):
    (found,) = merged(lines)
    return found


def test_one_life_is_one_sandbox_with_all_that_is_told_of_it():
    one = only(LIFE)
    assert (one.run_id, one.rollout_id, one.task) == (RUN, "0-0", "0")
    assert (one.sandbox_id, one.request_id, one.provider) == ("a", "request-a", "opensandbox")
    assert one.requested == SandboxResources(cpu=2.0, memory_mib=1024)
    assert one.submission.limits == SandboxResourceAmounts(cpu=2.0, memory_mib=1024.0)
    assert one.main.limits == SandboxResourceAmounts(cpu=2.0, memory_mib=1024.0)
    assert (one.readings, one.missed, one.failures, one.interval_s) == (2, 1, {"timeout": 1}, 10.0)
    assert (one.lifetime_s, one.end, one.leaked) == (29.0, EndReason.STOPPED, False)
    memory = one.preferred(Resource.MEMORY_MIB)
    assert (memory.min, memory.mean, memory.p95, memory.max, memory.last) == (100.0, 200.0, 300.0, 300.0, 300.0)
    assert (memory.key.scope, memory.key.source, memory.window_s) == (SampleScope.SANDBOX, "opensandbox.execd", 10.0)


@pytest.mark.parametrize("missing", range(len(LIFE)))
def test_what_no_record_says_is_taken_from_no_other_quantity(missing):
    one = only(LIFE[:missing] + LIFE[missing + 1 :])
    if missing == 0:
        assert one.requested is None
    if missing == 1:
        assert one.submission is None
    if missing == 2:
        assert one.allocation is None
    assert one.sandbox_id == "a"
    assert one.rollout_id == "0-0"


spans_of_all = [one for text in LIFE for one in spans(json.loads(text))]


def told_span(seed):
    """Return a span of one of few sandboxes; what joins it, and what it says, may be missing or contradict others."""
    rng = random.Random(seed)
    base = rng.choice(spans_of_all)
    varied = {key: rng.choice(values) for key, values in _VARIED.items()}
    attributes = {**base.attributes, **varied}
    return Span(
        base.name,
        rng.choice(["t1", "t2"]),
        rng.choice(["s1", "s2", "s3", "s4"]),
        rng.choice([0, START_NS, START_NS + 10**9]),
        rng.choice([0, START_NS + 10**9, START_NS + 10**10]),
        rng.random() < 0.5,
        rng.choice([None, "SandboxCreateError", "TimeoutError"]),
        {key: value for key, value in attributes.items() if value is not None},
    )


_VARIED = {
    names.NEMO_RUN_ID: [None, "run-1", "run-2"],
    names.NEMO_GYM_ROLLOUT_ID: [None, "0-0", "0-1"],
    names.NEMO_GYM_SANDBOX_ID: [None, "a", "b"],
    names.NEMO_GYM_SANDBOX_REQUEST_ID: [None, "r1", "r2"],
    names.NEMO_GYM_SANDBOX_PROVIDER: [None, "opensandbox", "docker"],
    names.NEMO_GYM_SANDBOX_REQUESTED_COUNT: [None, 1, 3],
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB: [None, 5.0, 7.0],
    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE: [None, "sandbox", "node", "nonsense"],
    names.NEMO_GYM_SANDBOX_LEAKED: [None, True, False],
}


def of_spans(items):
    inventory = Inventory()
    for one in items:
        inventory.add(one)
    return sandboxes_of(inventory)


@given(st.lists(st.integers(0, 2**32), max_size=15), st.randoms(use_true_random=False))
def test_neither_order_nor_repeats_make_a_difference(seeds, rng):
    items = [told_span(seed) for seed in seeds]
    again = items + rng.sample(items, len(items) // 2)
    rng.shuffle(again)
    assert of_spans(again) == of_spans(items)


def test_a_whole_input_given_twice_says_the_same():
    assert merged(LIFE + LIFE) == merged(LIFE)


def test_stock_gym_is_joined_by_the_trace_of_its_rollout_span():
    found = of_spans(spans(captured("rollout")))
    # The provider of the capture that makes nothing gives all its sandboxes one id.
    assert [(one.rollout_id, one.provider) for one in found] == [
        ("7-0", "opensandbox"),
        ("7-0", "fake"),
        ("7-1", "opensandbox"),
    ]
    assert {(one.run_id, one.end, one.requested, one.submission) for one in found} == {
        ("run-abc123", "stopped", None, None)
    }
    assert all(one.lifetime_s > 0 for one in found)


@pytest.mark.parametrize(
    ("case", "error"), [("cancelled_create", None), ("fake_fail", "nemo_gym.sandbox.providers.base.SandboxCreateError")]
)
def test_a_start_of_stock_gym_without_an_id_is_one_that_was_not_created(case, error):
    found = of_spans(spans(captured(case)))
    assert [(one.creation, one.error_type) for one in found if one.sandbox_id is None] == [(Creation.FAILED, error)]


def test_a_trace_of_two_rollouts_says_nothing_of_a_sandbox_without_one():
    unnamed = keys(rollout_id=None)
    assert only([started(unnamed), rollout_over(A, 5), rollout_over(keys(rollout_id="0-1"), 5)]).rollout_id is None


def test_equal_rollout_ids_of_two_runs_stay_apart():
    lines = [started(A), started(keys("b", run_id="run-2"))]
    assert [(one.run_id, one.rollout_id) for one in merged(lines)] == [("run-1", "0-0"), ("run-2", "0-0")]


def test_of_two_starts_of_one_sandbox_the_earlier_says_whose_it_is():
    late = started(keys(rollout_id="9-9")).replace(str(START_NS), str(START_NS + 5))
    assert only([late, started(A)]).rollout_id == "0-0"


def test_records_without_a_provider_join_the_only_one_that_has_the_sandbox():
    nameless = sampled(keys(provider=None), 40, 900.0, total_mib=1024.0)
    one = only([*LIFE[:5], nameless])
    assert (one.provider, one.readings) == ("opensandbox", 3)


def test_equal_ids_of_two_providers_are_two_sandboxes():
    assert [one.provider for one in merged([started(A), started(keys(provider="docker"))])] == ["docker", "opensandbox"]


def of_control_plane(host, trace_id, rollout_id, used_mib):
    """Return the lines of a sandbox of the same id as every other, but of another control plane."""
    at = keys(rollout_id=rollout_id, request_id=f"request-{host}")
    told = [
        with_scope(started(at, cpu=1.0), f"http://{host}.example"),
        allocated(at, cpu=1.0),
        sampled(at, 2, used_mib, total_mib=1024.0),
        ended(at, 9, leaked=False, readings_count=1),
    ]
    return [one.replace(TRACE, trace_id) for one in told]


def with_scope(start, scope):
    document = json.loads(start)
    (span,) = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    span["attributes"].append({"key": names.NEMO_GYM_SANDBOX_SCOPE, "value": {"stringValue": scope}})
    return json.dumps(document) + "\n"


@given(st.randoms(use_true_random=False))
def test_equal_ids_of_two_control_planes_are_two_sandboxes_each_with_its_own_readings(rng):
    one, other = of_control_plane("one", "1" * 32, "0-0", 100.0), of_control_plane("other", "2" * 32, "0-1", 300.0)
    stop_of_whom = stopped(A, 9).replace(TRACE, "3" * 32)
    lines = [*one, *other, stop_of_whom]
    rng.shuffle(lines)
    found = {sandbox.rollout_id: sandbox for sandbox in merged(lines)}
    assert {key: sandbox.scope for key, sandbox in found.items()} == {
        "0-0": "http://one.example",
        "0-1": "http://other.example",
    }
    used = {key: {series.max for series in sandbox.series} for key, sandbox in found.items()}
    assert (100.0 in used["0-0"], 300.0 in used["0-0"]) == (True, False)
    assert (100.0 in used["0-1"], 300.0 in used["0-1"]) == (False, True)


def test_two_traces_of_one_control_plane_are_one_sandbox():
    again = of_control_plane("one", "2" * 32, "0-0", 300.0)
    (found,) = merged([*of_control_plane("one", "1" * 32, "0-0", 100.0), *again])
    assert max(series.max for series in found.series) == 300.0


def test_every_sandbox_of_a_request_that_is_not_there_is_counted():
    lines = [requested(A, count=4), started(A), rollout_over(A, 5)]
    created, missing = merged(lines)
    assert (created.creation, missing.creation, missing.count) == (Creation.CREATED, Creation.NO_START, 3)
    assert missing.requested == SandboxResources()


@pytest.mark.parametrize(
    ("lines", "creation"),
    [
        ([], Creation.PENDING),
        ([rollout_over(A, 5)], Creation.NO_START),
        ([stopped(keys("other"), 700)], Creation.NO_START),
        ([refused(A), refused(A, mark=2)], Creation.FAILED),
        ([rollout_over(A, 5), refused(A)], Creation.FAILED),
    ],
)
def test_a_request_without_a_sandbox_waits_until_it_is_known_that_none_comes(lines, creation):
    found = [one for one in merged([requested(A), *lines]) if one.request_id == "request-a"]
    assert [(one.creation, one.count) for one in found] == [(creation, 1)]


def test_a_request_that_came_to_something_at_the_second_try_lacks_nothing():
    assert [one.creation for one in merged([requested(A), refused(A), started(A)])] == [Creation.CREATED]


def test_retries_of_a_request_whose_own_span_is_lost_are_one_wish():
    one = only([refused(A, "First"), refused(A, "Second", mark=2)])
    assert (one.creation, one.count, one.request_id) == (Creation.FAILED, 1, "request-a")


def test_a_summary_alone_says_what_it_echoes():
    summary = ended(
        A,
        30,
        readings_count=9,
        requested_count=1,
        requested=SandboxResources(cpu=1.0),
        statistics={"memory_used_mib": Statistics(1.0, 2.0, 3.0, 2.5)},
        memory_scope=SampleScope.SANDBOX,
    )
    one = only([summary])
    assert one.requested == SandboxResources(cpu=1.0)
    assert one.submission is None
    assert one.allocation is None
    memory = one.preferred(Resource.MEMORY_MIB)
    assert (memory.readings, memory.min, memory.mean, memory.p95, memory.max, memory.last) == (
        9,
        1.0,
        2.0,
        None,
        3.0,
        2.5,
    )


def test_a_summary_that_counted_more_than_the_input_holds_is_believed_and_the_percentile_is_of_the_input():
    told = {"memory_used_mib": Statistics(10.0, 20.0, 900.0, 30.0)}
    one = only([*LIFE[:-2], ended(A, 30, readings_count=50, statistics=told, memory_scope=SampleScope.SANDBOX)])
    memory = one.preferred(Resource.MEMORY_MIB)
    assert (memory.readings, memory.min, memory.mean, memory.p95, memory.max) == (50, 10.0, 20.0, 300.0, 900.0)


def test_a_summary_whose_scope_changed_in_between_is_not_taken_for_the_sandboxs_own():
    told = {"memory_used_mib": Statistics(10.0, 20.0, 90_000.0, 30.0)}
    lines = [
        sampled(A, 2, 90_000.0, total_mib=100_000.0, scope=SampleScope.NODE),
        sampled(A, 12, 300.0, total_mib=1024.0),
        ended(A, 30, readings_count=2, statistics=told, memory_scope=SampleScope.SANDBOX),
    ]
    own, nodes = [one for one in only(lines).series if one.key.quantity is Quantity.MEMORY_USED_MIB]
    assert (own.key.scope, own.max, nodes.key.scope, nodes.max) == (
        SampleScope.SANDBOX,
        300.0,
        SampleScope.NODE,
        90_000.0,
    )


def test_the_last_of_two_summaries_counts():
    lines = [ended(A, 30), ended(A, 400, end_reason=EndReason.GONE, leaked=True)]
    assert (only(lines).end, only(lines).leaked) == (EndReason.GONE, True)


def test_two_sources_are_never_put_together_and_the_sandboxs_own_comes_first():
    lines = [
        sampled(A, 2, 40_000.0, total_mib=64_000.0, scope=SampleScope.NODE),
        used(A, 2, memory_working_set_mib=200.0, cpu_used_cores=0.5),
        used(A, 12, memory_working_set_mib=400.0, cpu_used_cores=1.5),
    ]
    one = only(lines)
    memory, cpu = one.preferred(Resource.MEMORY_MIB), one.preferred(Resource.CPU)
    assert (memory.key, memory.mean) == ((Quantity.MEMORY_WORKING_SET_MIB, "docker.stats", SampleScope.SANDBOX), 300.0)
    assert (cpu.key.quantity, cpu.max) == (Quantity.CPU_USED_CORES, 1.5)
    assert [series.max for series in one.series if series.key.source == "opensandbox.execd"] == [10.0, 40_000.0]


def test_components_are_listed_and_added_up_where_each_states_an_amount():
    sandbox = ComponentAllocation(
        name="sandbox",
        requests=SandboxResourceAmounts(cpu=1.0),
        limits=SandboxResourceAmounts(cpu=2.0, memory_mib=1024.0),
    )
    proxy = ComponentAllocation(name="proxy", limits=SandboxResourceAmounts(cpu=0.5))
    one = only([started(A), allocated(A, sandbox, proxy)])
    assert one.allocation.components == (sandbox, proxy)
    assert one.main == sandbox
    assert one.total.limits == SandboxResourceAmounts(cpu=2.5)
    assert one.total.requests == SandboxResourceAmounts()


def test_what_a_whole_pod_uses_is_set_against_the_limits_of_the_whole_pod():
    sandbox = ComponentAllocation(name="sandbox", limits=SandboxResourceAmounts(memory_mib=1024.0))
    proxy = ComponentAllocation(name="proxy", limits=SandboxResourceAmounts(memory_mib=512.0))
    of_pod = used(A, 2, source=ResourceSource.KUBERNETES_METRICS, memory_working_set_mib=600.0)
    one = only([allocated(A, sandbox, proxy), of_pod, sampled(A, 2, 500.0, total_mib=1024.0)])
    assert {series.key.source: one.limit_of(series) for series in one.series if series.max > 10} == {
        "kubernetes.metrics": 1536.0,
        "opensandbox.execd": 1024.0,
    }


def test_a_sandbox_that_is_read_after_its_stop_outlives_it():
    one = only([*LIFE[:4], stopped(A, 30), sampled(A, 500, 100.0, total_mib=1024.0)])
    assert one.outlived_s == 470.0
    assert only(LIFE).outlived_s is None


def test_times_that_nobody_gave_give_no_lifetime():
    fields = {"startTimeUnixNano": "0", "endTimeUnixNano": "0"}
    start = line(names.SPAN_GYM_SANDBOX_START, A.to_attributes(), **fields)
    assert only([start, stopped(A, 30)]).lifetime_s is None
    assert only([started(A), stopped(A, -40)]).lifetime_s is None


def test_a_stop_that_failed_is_no_end():
    assert only([started(A), stopped(A, 30, status={"code": 2})]).end is None


def test_ids_that_are_known_from_the_trace_alone_do_not_change_what_is_told():
    named = replace(A, run_id=None)
    one = only([started(named), rollout_over(A, 5)])
    assert (one.run_id, one.rollout_id, one.trace_id) == (RUN, "0-0", TRACE)
