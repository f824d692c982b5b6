import re
from dataclasses import replace

import pytest
from rich.console import Console

from sandgauge_demo.outcome import Outcome, SandboxOutcome
from sandgauge_demo.table import outcome_table
from sandgauge_schemas.names import EndReason, SampleScope
from sandgauge_schemas.records import (
    Allocation,
    AllocationRecord,
    ComponentAllocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    StartRecord,
    Statistics,
    Submission,
    SummaryRecord,
)
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources

KEYS = JoinKeys(run_id="run-1", rollout_id="3-1", request_id="r", sandbox_id="0123456789abcdef", provider="opensandbox")


def allocation(*components):
    found = tuple(
        ComponentAllocation(name=name, limits=SandboxResourceAmounts(**limits)) for name, limits in components
    )
    status = ReadingStatus(source="opensandbox.inspect/docker")
    return AllocationRecord(keys=KEYS, status=status, allocation=Allocation(components=found))


def always(value):
    return Statistics(value, value, value, value)


ROW = SandboxOutcome(
    request=RequestRecord(keys=KEYS, requested=SandboxResources(cpu=8, memory_mib=16384, disk_gib=10)),
    start=StartRecord(
        keys=KEYS, submission=Submission(limits=SandboxResourceAmounts(cpu=4.0, memory_mib=8192.0, disk_gib=10.0))
    ),
    allocation=allocation(("sandbox", {"cpu": 3.5, "memory_mib": 4096.0})),
    summary=SummaryRecord(
        keys=KEYS,
        end_reason=EndReason.STOPPED,
        leaked=False,
        statistics={"cpu_used_percentage": always(12.4), "memory_used_mib": always(1024.0)},
        cpu_scope=SampleScope.UNKNOWN,
        memory_scope=SampleScope.SANDBOX,
    ),
)
KILLED = replace(ROW.summary, end_reason=EndReason.FAILED, oom_killed=True)
REFUSED = replace(
    ROW,
    start=StartRecord(keys=replace(KEYS, sandbox_id=None)),
    error_type="SandboxCreateError",
    allocation=None,
    summary=None,
)


def shown(row, width=80):
    """Return the title and the cells of each resource; cells stand two blanks apart, an empty one is not seen."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(outcome_table(Outcome(sandboxes=(row,))))
    _, title, *rows = capture.get().splitlines()
    cells = [re.split(r"\s{2,}", line.strip()) for line in rows]
    return title.strip(), {name: values for name, *values in cells}


def test_four_quantities_stand_side_by_side():
    assert shown(ROW) == (
        "rollout 3-1  sandbox 01234567  stopped",
        {
            "cpus": ["8", "4", "3.5", "12 %", "unknown"],
            "memory": ["16 GiB", "8 GiB", "4 GiB", "1 GiB", "25 %", "sandbox"],
            "disk": ["10 GiB", "10 GiB", "unknown"],
        },
    )


@pytest.mark.parametrize("scope", [SampleScope.NODE, SampleScope.UNKNOWN, None])
def test_only_a_sandboxs_own_memory_is_set_against_its_limit(scope):
    row = replace(ROW, summary=replace(ROW.summary, memory_scope=scope))
    assert shown(row)[1]["memory"] == ["16 GiB", "8 GiB", "4 GiB", "1 GiB", scope or "unknown"]


def test_what_no_record_says_is_unknown_and_borrowed_from_nowhere():
    row = replace(ROW, allocation=None, summary=None)
    title, rows = shown(row)
    assert title == "rollout 3-1  sandbox 01234567  end unknown"
    assert rows["cpus"] == ["8", "4", "unknown", "unknown"]
    assert rows["memory"] == ["16 GiB", "8 GiB", "unknown", "unknown"]


def test_a_sandbox_that_is_not_up_yet_has_nothing_but_its_request():
    title, rows = shown(SandboxOutcome(request=ROW.request))
    assert title == "rollout 3-1  sandbox unknown  end unknown"
    assert rows["cpus"] == ["8", "unknown", "unknown", "unknown"]


def test_nothing_declared_and_nothing_submitted_is_not_unknown():
    row = replace(
        ROW,
        request=RequestRecord(keys=KEYS),
        start=StartRecord(keys=KEYS, submission=Submission(sdk_default=True)),
    )
    assert shown(row)[1] == {
        "cpus": ["-", "SDK default", "3.5", "12 %", "unknown"],
        "memory": ["-", "SDK default", "4 GiB", "1 GiB", "25 %", "sandbox"],
    }


def test_a_refusal_is_told_with_its_reason():
    assert shown(REFUSED) == (
        "rollout 3-1  not created: SandboxCreateError",
        {"cpus": ["8", "-", "-", "-"], "memory": ["16 GiB", "-", "-", "-"], "disk": ["10 GiB", "-", "-"]},
    )


@pytest.mark.parametrize(
    ("summary", "end"),
    [
        (KILLED, "failed, out of memory"),
        (replace(ROW.summary, leaked=True), "stopped, leaked"),
        (replace(ROW.summary, end_reason=EndReason.EXPIRED), "expired"),
    ],
)
def test_how_it_ended(summary, end):
    assert shown(replace(ROW, summary=summary))[0] == f"rollout 3-1  sandbox 01234567  {end}"


@pytest.mark.parametrize(
    ("components", "cpu"),
    [
        ([("main", {"cpu": 2.0})], "2"),
        ([("proxy", {"cpu": 1.0}), ("sandbox", {"cpu": 2.0})], "2"),
        ([("proxy", {"cpu": 1.0}), ("main", {"cpu": 2.0})], "unknown"),
    ],
    ids=["only one", "one that is called sandbox", "no telling which"],
)
def test_the_allocation_shown_is_that_of_the_main_container(components, cpu):
    assert shown(replace(ROW, allocation=allocation(*components)))[1]["cpus"][2] == cpu


def test_it_fits_a_terminal_of_eighty_columns():
    wide = replace(
        ROW,
        request=RequestRecord(keys=KEYS, requested=SandboxResources(cpu=128, memory_mib=1023)),
        allocation=allocation(("sandbox", {"cpu": 0.123456, "memory_mib": 1023.5})),
        summary=replace(ROW.summary, statistics={"memory_used_mib": always(1023.4)}),
    )
    assert shown(wide, width=80) == shown(wide, width=200)
