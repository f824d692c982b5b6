"""A sandbox as JSON: what is known stands there, and nothing else does."""

import json

from sandgauge_poller.status.fleet import Standing
from sandgauge_poller.status.rows import detailed_row, plot, row
from sandgauge_poller.tracking.progress import End, ScopeDecision, UsageProgress
from sandgauge_poller.tracking.recent import Hour, Recent, minute_of
from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource, SampleScope, SandboxState, ScopeEvidence
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import JoinKeys, ReadingStatus, RequestRecord
from sandgauge_schemas.resources import SandboxResources
from support.tracked_sandbox import NOW_NS, S_NS, limited, read, tracked

NOW_S = NOW_NS / S_NS
ACTIVE = Standing(now_ns=NOW_NS, state=SandboxState.ACTIVE, interval_s=10.0, lateness_s=0.0)
NODE = ScopeDecision(SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT)


def hour(*values):
    """Return an hour whose last minute is that of NOW_NS."""
    found = Hour()
    for ago, value in enumerate(reversed(values)):
        if value is not None:
            found.raise_to(minute_of(NOW_NS) - ago, value)
    return found


def test_of_a_sandbox_that_nobody_read_only_what_its_spans_say_is_there():
    standing = Standing(now_ns=NOW_NS, state=SandboxState.UNMATCHED)
    assert row(tracked(deployment=None, run=None, rollout=None), standing) == {
        "provider": "opensandbox",
        "sandbox_id": "s-1",
        "state": "unmatched",
        "leaked": False,
        "started_at": NOW_S - 100,
    }


def test_a_reading_says_whose_machine_it_describes():
    sandbox = tracked(
        statistics=read(cpu_count=16.0, cpu_used_percentage=25.0, memory_total_mib=64000.0, memory_used_mib=0.0),
        last_reading_ns=NOW_NS - 3 * S_NS,
        cpu=NODE,
        memory=NODE,
    )
    shown = row(sandbox, ACTIVE)
    assert shown["reading"] == {
        "source": "opensandbox.execd",
        "at": NOW_S - 3,
        "failed_in_a_row": 0,
        "cpu_count": 16.0,
        "cpu_used_percentage": 25.0,
        "memory_total_mib": 64000.0,
        "memory_used_mib": 0.0,
        "cpu_scope": "node",
        "cpu_scope_evidence": "total_exceeds_limit",
        "memory_scope": "node",
        "memory_scope_evidence": "total_exceeds_limit",
    }
    assert (shown["interval_s"], shown["lateness_s"]) == (10.0, 0.0)
    assert "usage" not in shown
    assert "plot" not in shown


def test_a_failure_is_shown_with_its_reason_until_a_reading_is_good_again():
    sandbox = tracked(failed_in_a_row_ns=[NOW_NS, NOW_NS])
    sandbox.recent = Recent(error_type=ErrorType.TIMEOUT)
    reading = row(sandbox, ACTIVE)["reading"]
    assert reading == {"source": "opensandbox.execd", "failed_in_a_row": 2, "error_type": "timeout"}
    sandbox.recent = None  # as after a restart
    assert "error_type" not in row(sandbox, ACTIVE)["reading"]


def test_usage_stands_apart_from_the_daemons_reading():
    usage = UsageProgress(source=ResourceSource.DOCKER_STATS, last_reading_ns=NOW_NS, kills=2)
    sandbox = tracked(usage=usage, statistics=read(cpu_used_cores=0.25, memory_working_set_mib=90.0))
    shown = row(sandbox, ACTIVE)
    assert "reading" not in shown
    assert shown["usage"] == {
        "source": "docker.stats",
        "at": NOW_S,
        "failed_in_a_row": 0,
        "cpu_used_cores": 0.25,
        "memory_working_set_mib": 90.0,
        "oom_kills": 2,
    }


def test_an_allocation_lists_its_components_and_names_the_main_one():
    placed = limited(("sandbox", 0.5, 128.0), ("egress", 0.1, 64.0))
    status = ReadingStatus(source="opensandbox.inspect/kubernetes")
    sandbox = tracked(allocation=placed, recorded_allocation=placed, allocation_status=status)
    assert row(sandbox, ACTIVE)["allocation"] == {
        "source": "opensandbox.inspect/kubernetes",
        "components": [
            {"name": "sandbox", "requests": {}, "limits": {"cpu": 0.5, "memory_mib": 128.0}},
            {"name": "egress", "requests": {}, "limits": {"cpu": 0.1, "memory_mib": 64.0}},
        ],
        "main_component": "sandbox",
    }


def test_what_was_in_force_stays_while_it_cannot_be_read_and_the_reason_is_beside_it():
    status = ReadingStatus(source="opensandbox.inspect/docker", error_type=ErrorType.NOT_FOUND)
    sandbox = tracked(allocation=limited(("sandbox", 1.0, 256.0)), allocation_status=status)
    shown = row(sandbox, ACTIVE)["allocation"]
    assert shown["error_type"] == "not_found"
    assert shown["components"][0]["limits"] == {"cpu": 1.0, "memory_mib": 256.0}


def test_points_of_all_quantities_end_with_the_present_minute_and_gaps_are_null():
    sandbox = tracked()
    sandbox.recent = Recent(cpu_used_percentage=hour(1.0, None, 1 / 3), memory_working_set_mib=hour(5.0, None))
    assert row(sandbox, ACTIVE)["plot"] == {
        "end": minute_of(NOW_NS) * 60,
        "step_s": 60,
        "cpu_used_percentage": [1.0, None, 0.3333],
        "memory_working_set_mib": [5.0, None],
    }


def test_a_number_that_no_plot_can_show_is_left_out():
    assert plot({"a": hour(1e300)}, NOW_NS)["a"] == [None]
    assert plot({"a": hour(), "b": None}, NOW_NS) is None


def test_an_end_is_told_with_its_reason_and_a_leak_only_while_it_lives():
    ended = tracked(end=End(EndReason.GONE, NOW_NS - S_NS), leaked=True, oom_killed=True)
    shown = row(ended, Standing(now_ns=NOW_NS, state=SandboxState.ENDING))
    assert (shown["end_reason"], shown["ended_at"], shown["oom_killed"]) == ("gone", NOW_S - 1, True)
    assert shown["leaked"] is False
    assert row(tracked(leaked=True), ACTIVE)["leaked"] is True


def test_one_that_was_chosen_is_told_with_what_was_requested_and_where_it_runs():
    placed = limited(("sandbox", 1.0, 256.0))
    sandbox = tracked(
        request="r-1",
        allocation_status=ReadingStatus(source="opensandbox.inspect/docker"),
        recorded_allocation=placed.__class__(designator=Identity("docker-container", "http://osb", "abc")),
        readings=7,
        missed=1,
        statistics=read(memory_used_mib=4.0),
    )
    request = RequestRecord(keys=JoinKeys(), requested=SandboxResources(cpu=2, memory_mib=512))
    shown = detailed_row(sandbox, ACTIVE, request)
    assert shown["requested"] == {"cpu": 2, "memory_mib": 512}
    assert shown["request_id"] == "r-1"
    assert shown["readings"] == {"count": 7, "missed": 1}
    assert shown["statistics"] == {"memory_used_mib": {"min": 4.0, "mean": 4.0, "max": 4.0, "last": 4.0}}
    assert shown["allocation"]["designator"] == {"kind": "docker-container", "scope": "http://osb", "id": "abc"}
    assert "requested" not in detailed_row(sandbox, ACTIVE, None)
    json.dumps(shown, allow_nan=False)
