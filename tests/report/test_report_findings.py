import pytest

from sandgauge_report.findings import CURES, HEADLINES, FindingKind, findings_of
from sandgauge_report.merging.sandboxes import Sandbox
from sandgauge_schemas.names import EndReason, ResourceSource, SampleScope
from sandgauge_schemas.records import ComponentAllocation
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.told_run import (
    allocated,
    ended,
    failed,
    keys,
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
SHAPE = {"cpu": 2.0, "memory_mib": 1024.0}
ASKED = {"cpu": 2.0, "memory_mib": 1024}


def life(*lines, asked=ASKED, sent=SHAPE, given=SHAPE, notes=(), readings=25, memory=600.0, total=1024.0, summary=None):
    """Return the lines of a sandbox of which nothing is to be found, but for what is changed."""
    return [
        requested(A, **asked),
        started(A, **sent),
        allocated(A, **given, notes=notes),
        *(sampled(A, 2 + 10 * number, memory, total_mib=total) for number in range(readings)),
        *lines,
        ended(A, 300, readings_count=readings, memory_scope=SampleScope.SANDBOX, **(summary or {})),
    ]


def found(lines):
    return {one.kind: one.evidence for one in findings_of(merged(lines))}


def test_nothing_is_found_of_a_sandbox_that_got_what_it_asked_for_and_used_it():
    assert found(life()) == {}


CASES = {
    "a default shape": (
        life(sent={}, asked={}),
        FindingKind.SDK_DEFAULT,
        "nothing was submitted; allocated limits: cpus 2, memory 1 GiB",
    ),
    "clamped": (
        life(asked={"cpu": 8.0, "memory_mib": 1024}),
        FindingKind.CLAMPED,
        "cpus requested 8, submitted 2",
    ),
    "not passed on": (
        life(asked={**ASKED, "gpu": 1}),
        FindingKind.CLAMPED,
        "gpus requested 1, not submitted",
    ),
    "changed by the cluster": (
        life(given={"cpu": 2.0, "memory_mib": 768.0}, total=768.0),
        FindingKind.CHANGED_BY_CLUSTER,
        "memory limit submitted 1 GiB, allocated 768 MiB",
    ),
    "changed by a resize": (
        life(given={"cpu": 1.0, "memory_mib": 1024.0}, notes=("resize_pending",)),
        FindingKind.CHANGED_BY_CLUSTER,
        "cpus limit submitted 2, allocated 1 (noted: resize_pending)",
    ),
    "close to its limit": (
        life(memory=1000.0),
        FindingKind.NEAR_LIMIT,
        "memory at most 1000 MiB, 98% of 1 GiB; 25 readings in 240 s (opensandbox.execd)",
    ),
    "over its limit": (
        life(memory=1100.0),
        FindingKind.NEAR_LIMIT,
        "memory at most 1.07 GiB, 107% of 1 GiB; 25 readings in 240 s (opensandbox.execd)",
    ),
    "killed, and close to its limit before": (
        life(memory=1000.0, summary={"end_reason": EndReason.FAILED, "oom_killed": True}),
        FindingKind.KILLED_FOR_MEMORY,
        "the control plane says so; limit 1 GiB; highest reading 1000 MiB",
    ),
    "a child killed": (
        life(used(A, 2, memory_working_set_mib=600.0, oom_kills=3)),
        FindingKind.KILLED_FOR_MEMORY,
        "3 kills counted; limit 1 GiB; highest reading 600 MiB",
    ),
    "far too much reserved": (
        life(asked={"memory_mib": 8192}, sent={"memory_mib": 8192.0}, given={"memory_mib": 8192.0}, total=8192.0),
        FindingKind.OVER_RESERVED,
        "memory 8 GiB reserved, at most 600 MiB used; 768 MiB advised from 25 readings in 240 s (opensandbox.execd)",
    ),
    "leaked": (
        life(summary={"leaked": True, "lifetime_s": 900.0, "end_reason": EndReason.EXPIRED}),
        FindingKind.LEAKED,
        "it outlived its rollout or its stop; lived 15 min, ended: expired",
    ),
    "leaked, and still there": (
        [*life()[:-1], stopped(A, 20), sampled(A, 1000, 600.0, total_mib=1024.0)],
        FindingKind.LEAKED,
        "still read 16 min after its stop or the end of its rollout; no summary yet",
    ),
    "no readings": (
        life(
            *(failed(A, at, error) for at, error in ((2, "timeout"), (12, "connection"), (22, "timeout"))), readings=0
        ),
        FindingKind.NO_READINGS,
        "3 were due and failed; reasons: connection 1, timeout 2",
    ),
    "readings that describe the node": (
        life(sampled(A, 2, 40_000.0, total_mib=64_000.0, scope=SampleScope.NODE), readings=0),
        FindingKind.NODE_READINGS,
        "1 reading (opensandbox.execd); total 62.5 GiB, limit 1 GiB (total_exceeds_limit)",
    ),
    "refused": (
        [requested(A, **ASKED), refused(A)],
        FindingKind.NEVER_CREATED,
        "its start span has no sandbox id; error: SandboxCreateError",
    ),
    "never heard of again": (
        [requested(A, count=2, **ASKED), rollout_over(A, 9)],
        FindingKind.NEVER_CREATED,
        "2 of them: there is no start span: cancelled, or the span was lost",
    ),
}


@pytest.mark.parametrize(("lines", "kind", "evidence"), CASES.values(), ids=CASES)
def test_each_fault_is_found_once_with_its_evidence(lines, kind, evidence):
    assert found(lines) == {kind: evidence}


def test_every_kind_is_among_the_cases_and_has_a_headline_and_a_cure():
    assert {kind for _, kind, _ in CASES.values()} == set(FindingKind) == set(HEADLINES) == set(CURES)


QUIET = {
    "rounded by the text of Docker": life(given={"cpu": 2.004, "memory_mib": 1023.5}, notes=("rounded",)),
    "what the cluster does not tell": life(given={}, readings=0),
    "a request of which nothing has come yet": [requested(A, **ASKED)],
    "what nobody declared": life(asked={}),
    "too few readings to say that too much is reserved": life(
        asked={}, sent={"memory_mib": 8192.0}, given={"memory_mib": 8192.0}, total=8192.0, readings=19
    ),
    "little to save": life(asked={}, sent={"memory_mib": 300.0}, given={"memory_mib": 300.0}, total=300.0, memory=20.0),
    "a life too short for a reading": life(readings=0),
    "a stock Gym without a poller": [started(keys(request_id=None)), stopped(A, 20), rollout_over(A, 900)],
    "read once more while it was being deleted": [
        *life()[:-1],
        stopped(A, 240),
        sampled(A, 250, 600.0, total_mib=1024.0),
    ],
}
QUIET["a stock Gym without a poller"][0] = started(A, cpu=1.0)


@pytest.mark.parametrize("lines", QUIET.values(), ids=QUIET)
def test_what_is_no_fault_is_not_found(lines):
    assert found(lines) == {}


def test_numbers_of_the_node_are_held_against_no_limit():
    nodes = [sampled(A, 2 + 10 * number, 40_000.0, total_mib=64_000.0, scope=SampleScope.NODE) for number in range(30)]
    assert found(life(*nodes, readings=0)).keys() == {FindingKind.NODE_READINGS}


def test_where_the_sandbox_itself_was_read_the_nodes_numbers_do_not_matter():
    node = sampled(A, 2, 40_000.0, total_mib=64_000.0, scope=SampleScope.NODE)
    assert found(life(node, used(A, 2, memory_working_set_mib=600.0), readings=0)) == {}


def test_cpu_is_judged_by_its_percentile_and_only_by_a_source_that_sees_the_sandbox():
    busy = [used(A, 2 + 10 * number, cpu_used_cores=1.95, memory_working_set_mib=600.0) for number in range(25)]
    assert found(life(*busy, readings=0)) == {
        FindingKind.NEAR_LIMIT: "cpus 95th percentile 1.95, 98% of 2; 25 readings in 240 s (docker.stats)"
    }
    idle = [used(A, 2 + 10 * number, cpu_used_cores=0.05, memory_working_set_mib=600.0) for number in range(25)]
    assert found(life(*idle, readings=0)) == {
        FindingKind.OVER_RESERVED: (
            "cpus 2 reserved, at most 0.05 used; 0.1 advised from 25 readings in 240 s (docker.stats)"
        )
    }


def test_a_pod_is_judged_as_a_whole_by_what_it_requests():
    requests = SandboxResourceAmounts(memory_mib=4096.0)
    parts = [ComponentAllocation(name=name, requests=requests, limits=requests) for name in ("sandbox", "proxy")]
    of_pod = [
        used(A, 10 * number, source=ResourceSource.KUBERNETES_METRICS, memory_working_set_mib=500.0)
        for number in range(25)
    ]
    evidence = found([started(A, memory_mib=4096.0), allocated(A, *parts), *of_pod])[FindingKind.OVER_RESERVED]
    assert evidence.startswith("memory 8 GiB reserved, at most 500 MiB used; 640 MiB advised")


def test_findings_name_the_sandbox_they_are_of():
    other = keys("b", "0-1")
    lines = [*life(), requested(other, cpu=4.0), started(other, cpu=1.0)]
    ((one,),) = [findings_of(merged(lines))]
    assert (one.kind, one.sandbox.rollout_id, one.sandbox.sandbox_id) == (FindingKind.CLAMPED, "0-1", "b")


def test_an_unknown_everything_is_no_finding():
    assert findings_of([Sandbox(sandbox_id="a")]) == ()
