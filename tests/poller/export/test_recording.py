"""From readings to records and points: what changes a sandbox's progress, and what goes out."""

from dataclasses import replace

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_poller.export import recording, series
from sandgauge_poller.export.messages import export_request
from sandgauge_poller.export.sandbox_encoding import encoding_of
from sandgauge_poller.ingest.events import RolloutEvent, StopEvent
from sandgauge_poller.tracking.progress import End, ScopeDecision
from sandgauge_schemas import names
from sandgauge_schemas.names import EndReason, ErrorType, SampleScope, ScopeEvidence
from sandgauge_schemas.records import (
    Allocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    Submission,
)
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support import readings
from support.conformance import assert_conforms
from support.otlp_proto import points_of, spans_of
from support.readings import CONTAINER, SECOND, SETTINGS, T0, failed, limited, sample, tracked

TRACE = b"\x01" * 16


def record_allocation(sandbox, reading):
    return recording.record_allocation(sandbox, encoding_of(sandbox, SETTINGS), reading)


def record_sample(sandbox, reading, missed, *, is_final=False):
    return recording.record_sample(sandbox, encoding_of(sandbox, SETTINGS), reading, missed, is_final=is_final)


def sample_points(sandbox, reading, settings=SETTINGS):
    return recording.sample_points(sandbox, encoding_of(sandbox, settings), reading)


def record_summary(sandbox, request):
    return recording.record_summary(sandbox, encoding_of(sandbox, SETTINGS), request)


NODE = ScopeDecision(SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT)
UNKNOWN = ScopeDecision(SampleScope.UNKNOWN, ScopeEvidence.NO_LIMIT)
LIMITED = replace(limited(cpu=0.5, memory_mib=128.0), notes=("rounded",))
GROWN = replace(LIMITED, components=(replace(LIMITED.components[0], limits=SandboxResourceAmounts(cpu=1.5)),))


@pytest.fixture
def sandbox():
    made = tracked(submission=Submission(limits=SandboxResourceAmounts(cpu=1.0)))
    made.progress.memory = made.progress.cpu = UNKNOWN
    return made


def allocation(at_s, found=LIMITED, error_type=None):
    return readings.allocation(at_s, found, error_type)


def span(item):
    request = ExportTraceServiceRequest.FromString(export_request([item.payload]))
    assert_conforms(request)
    (only,) = spans_of(request)
    return only


def points(found):
    item = series.points_item(found)
    if item is None:
        return []
    request = ExportMetricsServiceRequest.FromString(export_request([item.payload]))
    assert_conforms(request)
    assert item.items == len(found)
    return list(points_of(request))


def test_an_allocation_is_recorded_once_and_again_when_it_changes(sandbox):
    first = record_allocation(sandbox, allocation(0))
    assert span(first).attributes[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] == "ok"
    assert record_allocation(sandbox, allocation(300)) is None
    assert span(record_allocation(sandbox, allocation(600, GROWN))).start_ns == T0 + 600 * SECOND


@pytest.mark.parametrize("error_type", [ErrorType.TIMEOUT, ErrorType.CONNECTION, ErrorType.HTTP_ERROR])
def test_a_control_plane_that_is_silent_for_once_takes_no_allocation_back(sandbox, error_type):
    record_allocation(sandbox, allocation(0))
    assert record_allocation(sandbox, allocation(300, Allocation(), error_type)) is None
    assert sandbox.progress.allocation == LIMITED


@pytest.mark.parametrize(
    ("looks", "stays"),
    [
        # not to be told for a while, and then as it was
        ([(LIMITED, ErrorType.NOT_FOUND), (LIMITED, None)], True),
        ([(Allocation(), ErrorType.NOT_FOUND), (LIMITED, None)], True),
        ([(Allocation(), ErrorType.UNRECOGNIZED_FORMAT), (Allocation(), ErrorType.NOT_FOUND)], True),
        # other limits, another container; the latter also where only that is known
        ([(GROWN, None)], False),
        ([(Allocation(), ErrorType.NOT_FOUND), (GROWN, None)], False),
        ([(replace(LIMITED, designator=replace(CONTAINER, id="3b0e9c2d1f45")), None)], False),
        ([(replace(LIMITED, designator=replace(CONTAINER, id="3b0e9c2d1f45")), ErrorType.UNRECOGNIZED_FORMAT)], False),
    ],
)
def test_whose_machine_it_is_stays_decided_until_the_allocation_changes(sandbox, looks, stays):
    record_allocation(sandbox, allocation(0))
    sandbox.progress.memory = sandbox.progress.cpu = NODE
    for at_s, (found, error_type) in enumerate(looks, start=1):
        record_allocation(sandbox, allocation(at_s, found, error_type))
    assert (sandbox.progress.memory, sandbox.progress.cpu) == ((NODE, NODE) if stays else (None, None))


def test_an_allocation_never_known_is_recorded_as_unavailable_once_for_each_reason(sandbox):
    errors = [ErrorType.TIMEOUT, ErrorType.TIMEOUT, ErrorType.NOT_FOUND]
    items = [record_allocation(sandbox, allocation(at, Allocation(), error)) for at, error in enumerate(errors)]
    assert [item and span(item).attributes[names.ERROR_TYPE] for item in items] == ["timeout", None, "not_found"]


def test_a_new_place_leaves_open_again_what_was_decided(sandbox):
    record_allocation(sandbox, allocation(0))
    sandbox.progress.memory = NODE
    moved = replace(LIMITED, designator=replace(CONTAINER, id="99990000aaaa"))
    record_allocation(sandbox, allocation(10, moved))
    assert sandbox.progress.memory is None


@pytest.mark.parametrize(
    ("looks", "resets"),
    [
        ([(100, None), (100, None)], 0),
        ([(None, None), (100, None)], 0),
        ([(100, None), (None, None), (100, None)], 0),
        ([(100, None), (200, None), (300, None)], 2),
        # The pod that was replaced is shown once more, beside its successor.
        ([(100, 0), (200, 0), (100, 0), (200, 0)], 1),
        # What was before the first look may have been before the sandbox had its id.
        ([(100, 3), (100, 3)], 0),
        ([(100, 0), (100, 2), (100, 3)], 3),
        ([(100, 1), (100, None), (100, 2)], 1),
        ([(100, None), (100, 4), (100, 5)], 1),
        ([(100, 5), (200, 0), (200, 1)], 2),
        ([(100, 5), (200, 2)], 3),
        ([(100, 5), (200, None), (200, 6)], 1),
    ],
)
def test_lives_that_begin_under_the_same_id_are_counted(sandbox, looks, resets):
    for at, (started_ns, restarts) in enumerate(looks):
        record_allocation(sandbox, replace(allocation(at), started_ns=started_ns, restarts=restarts))
    assert sandbox.progress.resets == resets


def test_the_flag_of_a_live_container_says_nothing_of_its_end(sandbox):
    record_allocation(sandbox, replace(allocation(0), oom_killed=False))
    assert sandbox.progress.oom_killed is None
    record_allocation(sandbox, replace(allocation(10), oom_killed=True))
    assert sandbox.progress.oom_killed is True


def test_a_sample_keeps_the_daemons_time_and_a_failed_one_has_no_numbers(sandbox):
    good = span(record_sample(sandbox, sample(1), 0))
    assert good.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS] == (T0 + SECOND) // 10**6
    assert (good.trace_id, good.parent_span_id) == (TRACE.hex(), "01" * 8)
    bad = span(record_sample(sandbox, failed(11), 1))
    assert bad.is_error
    assert not [key for key in bad.attributes if ".sample." in key]


def test_only_the_reading_before_deletion_says_that_it_is_final_be_it_good_or_failed(sandbox):
    found = [
        span(record_sample(sandbox, reading, 0, is_final=is_final)).attributes.get(names.NEMO_GYM_SANDBOX_SAMPLE_FINAL)
        for reading, is_final in ((sample(1), False), (sample(2), True), (failed(3), False), (failed(4), True))
    ]
    assert found == [None, True, None, True]


def test_the_same_record_has_the_same_bytes(sandbox):
    again = replace(sandbox, progress=type(sandbox.progress)())
    again.progress.memory = again.progress.cpu = UNKNOWN
    one, other = record_sample(sandbox, sample(1), 0), record_sample(again, sample(1), 0)
    assert one.payload == other.payload


def test_points_rise_by_a_millisecond_or_are_left_out(sandbox):
    first = sample_points(sandbox, sample(1))
    assert len(points(first.points)) == 4
    still = sample_points(sandbox, sample(11, timestamp_ms=(T0 + SECOND) // 10**6))
    assert (still.points, still.left_out) == ((), 4)
    assert len(sample_points(sandbox, sample(21)).points) == 4


@pytest.mark.parametrize("off_s", [-61, 62.5])
def test_a_clock_that_cannot_be_right_is_replaced_by_the_time_of_receipt(sandbox, off_s):
    wrong = (T0 + SECOND + round(off_s * SECOND)) // 10**6
    found = sample_points(sandbox, sample(1, timestamp_ms=wrong))
    assert {point.time_ns for point in found.points} == {T0 + 2 * SECOND}
    assert found.restamped == 4


@pytest.mark.parametrize("timestamp_ms", [T0 // 10**9 + 1, T0 // 1000, 2**63 - 1, 1, None])
def test_seconds_for_milliseconds_and_no_time_at_all_are_noticed(sandbox, timestamp_ms):
    reading = sample(1, timestamp_ms=timestamp_ms)
    kept = span(record_sample(sandbox, reading, 0)).attributes.get(names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS)
    found = sample_points(sandbox, reading)
    assert kept == timestamp_ms
    assert {point.time_ns for point in found.points} == {T0 + 2 * SECOND}
    assert found.restamped == 4


def test_a_series_whose_attributes_change_is_closed_first(sandbox):
    sample_points(sandbox, sample(1))
    sandbox.progress.memory = sandbox.progress.cpu = NODE
    found = points(sample_points(sandbox, sample(11)).points)
    assert [point.value is None for point in found] == [True, False] * 4
    closing, opening = found[:2]
    scope = names.NEMO_GYM_SANDBOX_SAMPLE_SCOPE
    assert (closing.attributes[scope], opening.attributes[scope]) == ("unknown", "node")
    assert closing.time_ns == opening.time_ns - 10**6 > T0 + SECOND


def test_ids_can_be_switched_off_for_metrics(sandbox):
    sandbox.rollout = RolloutEvent(trace_id=TRACE, span_id=b"12345678", received_ns=T0, keys=JoinKeys(rollout_id="7-0"))
    both = points(sample_points(sandbox, sample(1)).points)
    none = replace(SETTINGS, rollout_id=False, request_id=False)
    without = points(sample_points(sandbox, sample(11), none).points)
    ids = {names.NEMO_GYM_ROLLOUT_ID, names.NEMO_GYM_SANDBOX_REQUEST_ID}
    assert ids <= set(both[0].attributes)
    assert not ids & set(without[-1].attributes)


def test_nothing_is_added_to_series_once_the_sandbox_has_ended(sandbox):
    sandbox.progress.end = End(EndReason.STOPPED, T0)
    assert sample_points(sandbox, sample(1)).points == ()


def test_closing_points_are_one_for_each_series_later_than_its_last_and_made_once(sandbox):
    sample_points(sandbox, sample(1))
    closed = points(series.close_series(sandbox.progress, T0))
    assert [(point.value, point.time_ns) for point in closed] == [(None, T0 + SECOND + 10**6)] * 4
    assert series.close_series(sandbox.progress, T0 + 9 * SECOND) == ()


def test_a_summary_sets_all_quantities_side_by_side(sandbox):
    record_allocation(sandbox, allocation(0))
    sandbox.progress.memory = sandbox.progress.cpu = NODE
    for at_s, used in ((1, 300.0), (11, 1010.0), (21, 60.0)):
        record_sample(sandbox, sample(at_s, memory_used_mib=used), 0)
    record_sample(sandbox, failed(31), 1)
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 40 * SECOND)
    request = RequestRecord(keys=JoinKeys(request_id="q-1"), requested=SandboxResources(cpu=2, memory_mib=4096))
    found = span(record_summary(sandbox, request)).attributes
    expected = {
        names.NEMO_GYM_SANDBOX_LIFETIME_S: 40.0,
        names.NEMO_GYM_SANDBOX_READINGS_COUNT: 3,
        names.NEMO_GYM_SANDBOX_READINGS_MISSED: 1,
        names.NEMO_GYM_SANDBOX_READINGS_EFFECTIVE_INTERVAL_S: 10.0,
        names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_MIN: 60.0,
        names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_MAX: 1010.0,
        names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_LAST: 60.0,
        names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_SCOPE: "node",
        names.NEMO_GYM_SANDBOX_REQUESTED_CPU: 2.0,
        names.NEMO_GYM_SANDBOX_REQUESTED_MEMORY_MIB: 4096,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU: 1.0,
        f"{names.allocation_component_limits_prefix(0)}.memory_mib": 128.0,
    }
    assert {key: found[key] for key in expected} == expected


def test_an_end_before_the_start_has_no_lifetime(sandbox):
    sandbox.progress.end = End(EndReason.STOPPED, T0 - SECOND)
    assert names.NEMO_GYM_SANDBOX_LIFETIME_S not in span(record_summary(sandbox, None)).attributes


def test_no_summary_before_the_end(sandbox):
    sandbox.lifecycle = sandbox.lifecycle.with_stop(
        StopEvent(trace_id=TRACE, span_id=b"87654321", received_ns=T0, keys=JoinKeys(sandbox_id="sb-1"))
    )
    assert record_summary(sandbox, None) is None


@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("cpu", [NODE, UNKNOWN, None])
@pytest.mark.parametrize("numbers", [{}, {"timestamp_ms": None}, {"cpu_count": None, "memory_used_mib": 0.0}])
def test_a_reading_that_is_encoded_in_pieces_says_what_its_record_says(sandbox, numbers, cpu, is_final):
    sandbox.progress.cpu, reading = cpu, sample(1, **numbers)
    usage, memory = reading.usage, sandbox.progress.memory
    record = SampleRecord(
        keys=sandbox.keys,
        status=ReadingStatus(source=reading.source),
        timestamp_ms=usage.timestamp_ms,
        cpu_count=usage.cpu_count,
        cpu_used_percentage=usage.cpu_used_percentage,
        memory_total_mib=usage.memory_total_mib,
        memory_used_mib=usage.memory_used_mib,
        cpu_scope=cpu.scope if cpu else None,
        cpu_scope_evidence=cpu.evidence if cpu else None,
        memory_scope=memory.scope,
        memory_scope_evidence=memory.evidence,
        final=is_final or None,
    )
    made = span(record_sample(sandbox, reading, 0, is_final=is_final))
    assert made.attributes == record.to_attributes()
    start = sandbox.lifecycle.start
    assert (made.trace_id, made.parent_span_id) == (start.trace_id.hex(), start.span_id.hex())
    assert (made.start_ns, made.end_ns) == (reading.window.start_ns, reading.window.end_ns)


def test_pieces_are_made_anew_when_keys_or_scopes_change(sandbox):
    encoding = encoding_of(sandbox, SETTINGS)
    first = recording.record_sample(sandbox, encoding, sample(1), 0, is_final=False)
    sandbox.progress.memory = NODE
    second = recording.record_sample(sandbox, encoding, sample(11), 0, is_final=False)
    scopes = [span(item).attributes[names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE] for item in (first, second)]
    assert scopes == ["unknown", "node"]
