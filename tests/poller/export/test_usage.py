"""From answers of a usage source to records, points and the summary's numbers."""

from dataclasses import replace

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

from sandgauge_poller.export import recording, series
from sandgauge_poller.export.messages import export_request
from sandgauge_poller.export.sandbox_encoding import encoding_of
from sandgauge_poller.export.usage import last_kills, record_usage, take_kills
from sandgauge_poller.reading.provider import ReadWindow, SampleReading, Usage
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageObservation
from sandgauge_poller.tracking.progress import End, dump_progress, load_progress
from sandgauge_schemas import names
from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource
from sandgauge_schemas.records import SummaryRecord, UsageRecord
from support.otlp_proto import spans_of_payloads
from support.readings import SECOND, SETTINGS, T0, tracked

DOCKER = ResourceSource.DOCKER_STATS
CORES, WORKING_SET = names.METRIC_GYM_SANDBOX_CPU_USED_CORES, names.METRIC_GYM_SANDBOX_MEMORY_WORKING_SET_MIB
CPU_TIME, OOM_KILLS = names.METRIC_GYM_SANDBOX_CPU_TIME, names.METRIC_GYM_SANDBOX_OOM_KILLS


@pytest.fixture
def sandbox():
    return tracked()


def window(at_s):
    return ReadWindow(T0 + round(at_s * SECOND), T0 + round((at_s + 0.01) * SECOND))


def answer(at_s, cpu_time_s=None, **numbers):
    observation = UsageObservation(timestamp_ns=T0 + round(at_s * SECOND), cpu_time_s=cpu_time_s, **numbers)
    return UsageAnswer(window=window(at_s), source=DOCKER, observation=observation)


def failure(at_s, error_type=ErrorType.TIMEOUT):
    return UsageAnswer(window=window(at_s), source=DOCKER, error_type=error_type)


def take(sandbox, found, missed=0):
    return record_usage(sandbox, encoding_of(sandbox, SETTINGS), found, missed)


def record_of(recorded):
    (span,) = spans_of_payloads([recorded.span.payload])
    return UsageRecord.from_attributes(span.attributes)


def metrics_of(points):
    request = ExportMetricsServiceRequest.FromString(export_request([series.points_item(points).payload]))
    return {metric.name: metric for part in request.resource_metrics for metric in part.scope_metrics[0].metrics}


def summary_of(sandbox, at_s=100.0):
    sandbox.progress.end = End(EndReason.STOPPED, T0 + round(at_s * SECOND))
    (span,) = spans_of_payloads([recording.record_summary(sandbox, encoding_of(sandbox, SETTINGS), None).payload])
    return SummaryRecord.from_attributes(span.attributes)


def test_two_readings_give_cores_and_each_says_what_it_is_of(sandbox):
    first = record_of(take(sandbox, answer(0, 6.0, memory_working_set_mib=80.0, cpu_throttled_s=4.0)))
    assert (first.cpu_used_cores, first.window_s) == (None, None)
    assert (first.cpu_time_s, first.memory_working_set_mib, first.cpu_throttled_s) == (6.0, 80.0, 4.0)
    recorded = take(sandbox, answer(10, 12.0, memory_working_set_mib=81.0))
    second = record_of(recorded)
    assert (second.cpu_used_cores, second.window_s, second.cpu_time_s) == (0.6, 10.0, 12.0)
    assert second.timestamp_ms == (T0 + 10 * SECOND) // 10**6
    (span,) = spans_of_payloads([recorded.span.payload])
    assert span.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE] == "sandbox"
    assert span.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE] == "source"
    assert span.attributes[names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE] == "docker.stats"


def test_a_failed_reading_is_a_record_without_numbers_and_missed(sandbox):
    recorded = take(sandbox, failure(0), missed=3)
    assert record_of(recorded) == UsageRecord(
        keys=sandbox.keys, status=replace(record_of(recorded).status, error_type=ErrorType.TIMEOUT)
    )
    assert recorded.points.points == ()
    assert sandbox.progress.usage.missed == 3


def test_the_same_time_stamp_is_never_stored_twice(sandbox):
    take(sandbox, answer(0, 6.0))
    assert take(sandbox, replace(answer(0, 6.0), window=window(5))) is None
    assert sandbox.progress.usage.readings == 1


def test_points_are_gauges_and_sums_that_know_since_when_they_accumulate(sandbox):
    take(sandbox, answer(0, 6.0, started_ns=T0 - 5 * SECOND))
    take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0 - 4 * SECOND, count=1))
    found = metrics_of(
        take(sandbox, answer(10, 12.0, memory_working_set_mib=80.0, started_ns=T0 - 5 * SECOND)).points.points
    )
    assert set(found) == {CORES, WORKING_SET, CPU_TIME, OOM_KILLS}
    assert found[CORES].gauge.data_points[0].as_double == 0.6
    assert found[WORKING_SET].gauge.data_points[0].as_double == 80.0
    for metric, value, start_ns in ((CPU_TIME, 12.0, T0 - 5 * SECOND), (OOM_KILLS, 1.0, T0 - 4 * SECOND)):
        total = found[metric].sum
        assert total.is_monotonic
        assert total.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        (point,) = total.data_points
        assert (point.as_double, point.start_time_unix_nano) == (value, start_ns)
        assert point.time_unix_nano == T0 + 10 * SECOND
    (closing,) = metrics_of(series.close_series(sandbox.progress, T0 + 20 * SECOND))[CPU_TIME].sum.data_points
    assert (closing.flags, closing.start_time_unix_nano) == (1, T0 - 5 * SECOND)


@pytest.mark.parametrize(("started_ns", "expected_ns"), [(T0 + 4 * SECOND, T0 + 4 * SECOND), (None, T0)])
def test_a_restart_begins_a_sum_anew_and_is_counted_without_a_window(sandbox, started_ns, expected_ns):
    take(sandbox, answer(0, 6.0))
    recorded = take(sandbox, answer(10, 1.0, started_ns=started_ns))
    assert record_of(recorded).cpu_used_cores is None
    (point,) = metrics_of(recorded.points.points)[CPU_TIME].sum.data_points
    assert (point.as_double, point.start_time_unix_nano) == (1.0, expected_ns)
    take(sandbox, answer(20, 2.0, started_ns=started_ns))
    summary = summary_of(sandbox)
    assert (summary.resets, summary.cpu_time_s) == (1, 8.0)


@pytest.mark.parametrize(
    ("told", "kills"),
    [
        ([Kills(since_ns=T0, count=0)], 0),
        ([Kills(since_ns=T0, count=1), Kills(since_ns=T0, count=1), Kills(since_ns=T0, count=3)], 3),
        # a poller that began to watch anew counts from nothing, and what was counted stays
        ([Kills(since_ns=T0, count=2), Kills(since_ns=T0 + SECOND, count=0), Kills(since_ns=T0 + SECOND, count=1)], 3),
        ([Kills(since_ns=T0, main_killed=True)], None),
    ],
)
def test_kills_only_ever_grow(sandbox, told, kills):
    for found in told:
        take_kills(sandbox.progress, DOCKER, found)
    assert summary_of(sandbox).oom_kills == kills


@pytest.mark.parametrize(
    ("known", "told", "expected"),
    [(None, True, True), (None, False, False), (None, None, None), (True, False, True), (False, True, True)],
)
def test_a_kill_that_was_seen_stays_seen(sandbox, known, told, expected):
    sandbox.progress.oom_killed = known
    take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, main_killed=told))
    assert summary_of(sandbox).oom_killed is expected


def test_a_kill_after_the_last_reading_still_becomes_a_point(sandbox):
    take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=1))
    take(sandbox, answer(10, 6.0))
    assert last_kills(sandbox.progress, T0 + 11 * SECOND) == ()
    take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=2))
    (last,) = last_kills(sandbox.progress, T0 + 12 * SECOND)
    assert (last.metric, last.value, last.time_ns, last.start_ns) == (OOM_KILLS, 2.0, T0 + 12 * SECOND, T0)
    closing = {point.metric: point for point in series.close_series(sandbox.progress, T0 + 12 * SECOND)}
    assert closing[OOM_KILLS].time_ns == T0 + 12 * SECOND + 10**6
    assert closing[OOM_KILLS].attributes == last.attributes
    assert last_kills(sandbox.progress, T0 + 13 * SECOND) == ()


def test_news_of_kills_are_told_apart_from_none(sandbox):
    assert take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=0))
    assert not take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=0))
    assert take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=1))
    assert take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=1, main_killed=True))
    assert not take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=1, main_killed=True))


def test_a_summary_says_what_was_used_and_which_source_said_it(sandbox):
    for at_s, cpu_time_s, memory in ((0, 0.0, 70.0), (10, 6.0, 80.0), (20, 8.0, 90.0)):
        take(sandbox, answer(at_s, cpu_time_s, memory_working_set_mib=memory))
    take(sandbox, failure(30), missed=1)
    summary = summary_of(sandbox)
    assert summary.usage_source == "docker.stats"
    assert summary.cpu_time_s == 8.0
    cores, memory = summary.statistics["cpu_used_cores"], summary.statistics["memory_working_set_mib"]
    assert (cores.min, cores.mean, cores.max, cores.last) == pytest.approx((0.2, 0.4, 0.6, 0.2))
    assert (memory.min, memory.mean, memory.max, memory.last) == (70.0, 80.0, 90.0, 90.0)
    assert (summary.readings_count, summary.readings_missed, summary.effective_interval_s) == (3, 1, 10.0)


def test_where_execd_is_read_too_the_readings_counted_are_its(sandbox):
    execd = SampleReading(
        window=window(0), source=ResourceSource.OPENSANDBOX_EXECD, usage=Usage(cpu_used_percentage=50.0)
    )
    recording.record_sample(sandbox, encoding_of(sandbox, SETTINGS), execd, 0, is_final=False)
    for at_s in (0, 10, 20):
        take(sandbox, answer(at_s, float(at_s)))
    summary = summary_of(sandbox)
    assert summary.readings_count == 1
    assert set(summary.statistics) == {"cpu_used_percentage", "cpu_used_cores"}


def test_what_a_source_told_is_kept_over_a_restart(sandbox):
    take_kills(sandbox.progress, DOCKER, Kills(since_ns=T0, count=1))
    take(sandbox, answer(0, 6.0, memory_working_set_mib=80.0))
    sandbox.progress = load_progress(dump_progress(sandbox.progress))
    assert record_of(take(sandbox, answer(100, 66.0))).cpu_used_cores == 0.6
    assert summary_of(sandbox).oom_kills == 1


def test_without_a_usage_source_a_summary_says_nothing_of_one(sandbox):
    summary = summary_of(sandbox)
    assert (summary.usage_source, summary.cpu_time_s, summary.oom_kills) == (None, None, None)
