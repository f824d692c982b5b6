import pytest

from sandgauge_report.grouping import By, Side, Total, rows_of
from sandgauge_report.merging.sandboxes import Creation
from sandgauge_report.sizing import advise
from sandgauge_schemas.names import Resource, SampleScope
from support.told_run import allocated, ended, keys, merged, refused, requested, sampled, started, used

FIRST, SECOND, THIRD = keys("a", "0-0"), keys("b", "0-1"), keys("c", "1-0", provider="docker")
LINES = [
    *(requested(one, cpu=2.0, memory_mib=1024) for one in (FIRST, SECOND)),
    requested(THIRD, memory_mib=512),
    *(started(one, memory_mib=1024.0) for one in (FIRST, SECOND, THIRD)),
    *(allocated(one, memory_mib=1024.0) for one in (FIRST, SECOND)),
    *(sampled(FIRST, number, 100.0, total_mib=1024.0) for number in range(10)),
    *(sampled(SECOND, number, 900.0, total_mib=1024.0) for number in range(30)),
    sampled(THIRD, 1, 50_000.0, total_mib=64_000.0, scope=SampleScope.NODE),
    requested(keys("d", "1-0"), cpu=1.0, count=2),
    refused(keys("d", "1-0")),
    ended(FIRST, 20, readings_count=10),
]


def rows(by):
    return rows_of(merged(LINES), by)


@pytest.mark.parametrize(
    ("by", "keys_of_rows"),
    [
        (By.ROLLOUT, [("run-1", "0", "0-0"), ("run-1", "0", "0-1"), ("run-1", "1", "1-0")]),
        (By.TASK, [("run-1", "0", None), ("run-1", "1", "1-0")]),
        (By.RUN, [("run-1", None, None)]),
    ],
)
def test_rows_stand_for_what_was_asked(by, keys_of_rows):
    assert [(row.run_id, row.task, row.rollout_id) for row in rows(by)] == keys_of_rows


def test_rows_by_provider_and_by_sandbox():
    assert {row.provider for row in rows(By.PROVIDER)} == {"opensandbox", "docker"}
    assert [row.only.sandbox_id for row in rows(By.SANDBOX)] == ["a", "b", "c", None]


def test_what_is_known_is_added_up_and_says_of_how_many():
    (run,) = rows(By.RUN)
    assert run.creations == {Creation.CREATED: 3, Creation.FAILED: 2}
    assert run.total(Side.REQUESTED, Resource.CPU) == Total(6.0, 4, 5)
    assert run.total(Side.REQUESTED, Resource.MEMORY_MIB) == Total(2560, 3, 5)
    assert run.total(Side.ALLOCATED_LIMITS, Resource.MEMORY_MIB) == Total(2048.0, 2, 3)
    assert run.total(Side.ALLOCATED_LIMITS, Resource.GPU) is None
    assert (run.ends, run.lifetimes_s) == ({"stopped": 1, None: 2}, [19.0])


def test_readings_of_several_sandboxes_are_put_together_and_never_added_up():
    (run,) = rows(By.RUN)
    memory = run.preferred(Resource.MEMORY_MIB)
    assert (memory.readings, memory.min, memory.mean, memory.p95, memory.max) == (40, 100.0, 700.0, 900.0, 900.0)
    assert run.sandboxes_with(memory.key) == 2
    assert run.share_of_limit(memory.key) == 900.0 / 1024.0


def test_those_of_the_node_stay_apart_and_have_no_share_of_a_limit():
    (run,) = rows(By.RUN)
    (nodes,) = [one for one in run.series if one.key.scope is SampleScope.NODE and one.max > 100]
    assert (nodes.readings, nodes.max, run.share_of_limit(nodes.key)) == (1, 50_000.0, None)


def test_equal_rollouts_without_a_run_stay_apart_by_trace():
    first = started(keys(run_id=None))
    second = started(keys("b", run_id=None)).replace("5e" * 16, "6f" * 16)
    assert len(rows_of(merged([first, second]), By.ROLLOUT)) == 2


def series_of(*lines):
    (one,) = merged([started(FIRST), *lines])
    return one.preferred


def readings(scope):
    return [sampled(FIRST, number, 5.0, total_mib=9e4, scope=scope) for number in range(30)]


MANY = [used(FIRST, number, cpu_used_cores=0.4, memory_working_set_mib=300.0) for number in range(20)]
PEAK = used(FIRST, 20, cpu_used_cores=4.0, memory_working_set_mib=900.0)


@pytest.mark.parametrize(
    ("lines", "resource", "advised", "refusal"),
    [
        (MANY, Resource.MEMORY_MIB, 384.0, None),
        (MANY, Resource.CPU, 0.5, None),
        # One reading in twenty-one is above the 95th percentile; memory kills by its highest.
        ([*MANY, PEAK], Resource.MEMORY_MIB, 1152.0, None),
        ([*MANY, PEAK], Resource.CPU, 0.5, None),
        (MANY[:19], Resource.MEMORY_MIB, None, "fewer than 20 readings"),
        (readings(SampleScope.NODE), Resource.MEMORY_MIB, None, "the readings describe the node"),
        (readings(SampleScope.UNKNOWN), Resource.CPU, None, "nothing tells whose machine the readings describe"),
        ([], Resource.CPU, None, "no readings"),
    ],
)
def test_advice_rests_on_enough_readings_of_the_sandbox_itself(lines, resource, advised, refusal):
    series = series_of(*lines)(resource)
    advice = advise(resource, 8.0, series)
    assert (advice.advised, advice.refusal) == (advised, refusal)
    assert advice.readings == (None if series is None else series.readings)


def test_a_row_advises_on_one_sandbox_by_the_readings_of_all():
    memory = rows(By.TASK)[0].advice[1]
    assert (memory.reserved, memory.advised, memory.readings, memory.window_s) == (1024.0, 1152.0, 40, 29.0)


@pytest.mark.parametrize("by", [By.RUN, By.PROVIDER])
def test_sandboxes_of_different_tasks_have_no_advice_in_common(by):
    assert [row.advice for row in rows(by)] == [()] * len(rows(by))
