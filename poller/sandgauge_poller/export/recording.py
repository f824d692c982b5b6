"""From readings to records: pure steps that change a sandbox's progress and return what to put into the outbox."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sandgauge_poller.export.messages import GaugePoint, encode_gauges, encode_span, span_id
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.reading.provider import AllocationReading, ReadWindow, SampleReading
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import Progress, RunningStatistics, Series
from sandgauge_poller.tracking.sender_clock import lifetime_s
from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes
from sandgauge_schemas.names import ErrorType, ResourceSource, Signal
from sandgauge_schemas.records import (
    Allocation,
    AllocationRecord,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    SummaryRecord,
)

MILLISECOND_NS = 1_000_000
"""Least distance of two points in a series: backends cut times to milliseconds."""

MOST_FAILED_KEPT = 64
"""Failed readings remembered in a row; a stop span comes within seconds, not after so many."""

_SILENT = frozenset({ErrorType.TIMEOUT, ErrorType.CONNECTION, ErrorType.HTTP_ERROR, ErrorType.UNAUTHORIZED})
"""Outcomes that say nothing of the allocation: one that is known stays in force."""

_CPU_METRICS = (names.METRIC_GYM_SANDBOX_CPU_COUNT, names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSettings:
    """Which points are made, and how far a daemon's clock may be off the reading's window (ns)."""

    metrics: bool
    rollout_id: bool
    request_id: bool
    max_clock_skew_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points to send, how many were left out since their time would not have risen, and how many were restamped."""

    points: tuple[GaugePoint, ...] = ()
    left_out: int = 0
    restamped: int = 0


def record_allocation(sandbox: Tracked, reading: AllocationReading) -> OutboxItem | None:
    """Return the allocation's span if it is news, and remember it."""
    progress = sandbox.progress
    # While a sandbox lives only a kill that was seen says something: the flag is False until it is over.
    progress.oom_killed = reading.oom_killed or progress.oom_killed
    _count_restarts(progress, reading)
    if reading.error_type in _SILENT and progress.allocation is not None:
        return None
    allocation = reading.allocation
    if reading.error_type is not None:
        allocation = _placement_only(allocation, progress.recorded_allocation or Allocation())
    status = ReadingStatus(source=reading.source, error_type=reading.error_type)
    if (status, allocation) == (progress.allocation_status, progress.recorded_allocation):
        return None
    if _is_another(allocation, progress, reading.error_type):
        # Whose machine the numbers describe was decided against the limits, or on the host, of before.
        progress.memory = progress.cpu = None
    progress.allocation_status, progress.recorded_allocation = status, allocation
    if reading.error_type is None:
        progress.allocation = allocation
    record = AllocationRecord(keys=sandbox.keys, status=status, allocation=allocation)
    return _span(
        sandbox,
        names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
        reading.source,
        reading.window,
        record.to_attributes(),
        rank=Rank.LASTING,
    )


def record_sample(sandbox: Tracked, reading: SampleReading, missed: int, *, is_final: bool) -> OutboxItem:
    """Return the reading's span, and count it; its scopes are those decided in the progress."""
    progress = sandbox.progress
    progress.missed += missed
    status = ReadingStatus(source=reading.source, error_type=reading.error_type)
    record = SampleRecord(keys=sandbox.keys, status=status, final=is_final or None)
    usage = reading.usage
    if usage is None:
        progress.failed_in_a_row_ns = [*progress.failed_in_a_row_ns, reading.window.start_ns][-MOST_FAILED_KEPT:]
    else:
        _count(progress, reading.window, usage_values(reading))
        cpu, memory = progress.cpu, progress.memory
        record = replace(
            record,
            timestamp_ms=usage.timestamp_ms,
            cpu_count=usage.cpu_count,
            cpu_used_percentage=usage.cpu_used_percentage,
            memory_total_mib=usage.memory_total_mib,
            memory_used_mib=usage.memory_used_mib,
            cpu_scope=cpu.scope if cpu else None,
            cpu_scope_evidence=cpu.evidence if cpu else None,
            memory_scope=memory.scope if memory else None,
            memory_scope_evidence=memory.evidence if memory else None,
        )
    name = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
    return _span(sandbox, name, reading.source, reading.window, record.to_attributes(), rank=Rank.SAMPLE)


def sample_points(sandbox: Tracked, reading: SampleReading, settings: PointSettings) -> Points:
    """Return the gauge points of a good reading; a series whose attributes change is closed first."""
    usage = reading.usage
    if usage is None or not settings.metrics or sandbox.progress.end is not None:
        return Points()
    time_ns, restamped = _point_time(reading, settings.max_clock_skew_ns)
    keys = _metric_keys(sandbox.keys, settings)
    points: list[GaugePoint] = []
    left_out = 0
    for metric, value in usage_values(reading).items():
        decision = sandbox.progress.cpu if metric in _CPU_METRICS else sandbox.progress.memory
        attributes = {**keys, **({names.NEMO_GYM_SANDBOX_SAMPLE_SCOPE: decision.scope} if decision else {})}
        before = sandbox.progress.series.get(metric)
        if before is not None and before.attributes != attributes:
            # Just before the first point of the new series: as fresh as that one, however long ago the old one was.
            if time_ns < before.last_ns + 2 * MILLISECOND_NS:
                left_out += 1
                continue
            points.append(_closing_point(metric, before, time_ns - MILLISECOND_NS))
        elif before is not None and time_ns < before.last_ns + MILLISECOND_NS:
            left_out += 1
            continue
        sandbox.progress.series[metric] = Series(attributes, time_ns)
        points.append(GaugePoint(metric=metric, value=value, time_ns=time_ns, attributes=attributes))
    return Points(points=tuple(points), left_out=left_out, restamped=len(usage_values(reading)) if restamped else 0)


def close_series(progress: Progress, now_ns: int) -> tuple[GaugePoint, ...]:
    """Return one closing point for each live series, later than its last, and forget the series."""
    points = tuple(
        _closing_point(metric, series, max(series.last_ns + MILLISECOND_NS, now_ns))
        for metric, series in progress.series.items()
    )
    progress.series = {}
    return points


def record_summary(sandbox: Tracked, request: RequestRecord | None) -> OutboxItem | None:
    """Return the summary's span; None for a sandbox that has not ended."""
    progress, start = sandbox.progress, sandbox.lifecycle.start
    if progress.end is None or start is None:
        return None
    allocation = progress.allocation or progress.recorded_allocation or Allocation()
    record = SummaryRecord(
        keys=sandbox.keys,
        end_reason=progress.end.reason,
        leaked=progress.leaked,
        oom_killed=progress.oom_killed,
        lifetime_s=lifetime_s(sandbox.lifecycle, progress),
        readings_count=progress.readings,
        readings_missed=progress.missed,
        effective_interval_s=_effective_interval(progress),
        statistics={
            quantity: progress.statistics[metric].result()
            for metric, quantity in _QUANTITIES.items()
            if metric in progress.statistics
        },
        cpu_scope=progress.cpu.scope if progress.cpu else None,
        memory_scope=progress.memory.scope if progress.memory else None,
        resets=progress.resets,
        submission=start.record.submission,
        allocation=allocation,
    )
    if request is not None:
        record = replace(record, requested_count=request.count, requested=request.requested, sidecars=request.sidecars)
    window = ReadWindow(progress.end.at_ns, progress.end.at_ns)
    name = names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
    return _span(sandbox, name, None, window, record.to_attributes(), rank=Rank.LASTING)


def gauge_item(points: Iterable[GaugePoint]) -> OutboxItem | None:
    """Return the outbox row of some points, or None without any."""
    found = tuple(points)
    if not found:
        return None
    created_ns = min(point.time_ns for point in found)
    payload = encode_gauges(found)
    return OutboxItem(signal=Signal.METRICS, rank=Rank.POINT, created_ns=created_ns, items=len(found), payload=payload)


_QUANTITIES = {
    names.METRIC_GYM_SANDBOX_CPU_COUNT: "cpu_count",
    names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE: "cpu_used_percentage",
    names.METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB: "memory_total_mib",
    names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB: "memory_used_mib",
}
"""Metric of each quantity of execd's readings; the words are those of the records."""


def usage_values(reading: SampleReading) -> dict[str, float]:
    """Return the numbers of a good reading by metric name."""
    values = {metric: getattr(reading.usage, quantity, None) for metric, quantity in _QUANTITIES.items()}
    return {metric: value for metric, value in values.items() if value is not None}


def _count(progress: Progress, window: ReadWindow, values: Mapping[str, float]) -> None:
    progress.readings += 1
    progress.failed_in_a_row_ns = []
    progress.first_reading_ns = progress.first_reading_ns or window.start_ns
    progress.last_reading_ns = window.start_ns
    for metric, value in values.items():
        if metric in progress.statistics:
            progress.statistics[metric].add(value)
        else:
            progress.statistics[metric] = RunningStatistics.of(value)


def _count_restarts(progress: Progress, reading: AllocationReading) -> None:
    """Count the lives that began under the same id since the last look; what was before the first is not known.

    Readings do not count: that memory falls is no proof, since a program may just have let go of it.
    """
    started_ns, known_ns = reading.started_ns, progress.started_ns
    if started_ns is None or (known_ns is not None and started_ns < known_ns):
        return  # an older life: for a while the control plane may still show the pod that was replaced
    if started_ns == known_ns:
        known = progress.restarts if progress.restarts is not None else reading.restarts
        if reading.restarts is not None and known is not None:
            progress.resets += max(0, reading.restarts - known)
            progress.restarts = reading.restarts
        return
    if known_ns is not None:
        progress.resets += 1 + (reading.restarts or 0)
    progress.started_ns, progress.restarts = started_ns, reading.restarts


def _effective_interval(progress: Progress) -> float | None:
    first_ns, last_ns = progress.first_reading_ns, progress.last_reading_ns
    if first_ns is None or last_ns is None or progress.readings < 2:  # noqa: PLR2004  # an interval has two ends
        return None
    return (last_ns - first_ns) / 1e9 / (progress.readings - 1)


def _point_time(reading: SampleReading, max_skew_ns: int) -> tuple[int, bool]:
    """Return the daemon's own time in ns, or the receive time and True where that cannot be right."""
    timestamp_ms = reading.usage.timestamp_ms if reading.usage else None
    window = reading.window
    if timestamp_ms is not None:
        time_ns = timestamp_ms * MILLISECOND_NS
        if window.start_ns - max_skew_ns <= time_ns <= window.end_ns + max_skew_ns:
            return time_ns, False
    return window.end_ns, True


def _metric_keys(keys: JoinKeys, settings: PointSettings) -> dict[str, str]:
    kept = replace(
        keys,
        rollout_id=keys.rollout_id if settings.rollout_id else None,
        request_id=keys.request_id if settings.request_id else None,
    )
    return {key: str(value) for key, value in kept.to_attributes().items()}


def _closing_point(metric: str, series: Series, time_ns: int) -> GaugePoint:
    return GaugePoint(metric=metric, value=None, time_ns=time_ns, attributes=series.attributes)


def _is_another(allocation: Allocation, progress: Progress, error_type: ErrorType | None) -> bool:
    """Tell whether what is in force changed; that it cannot be told for a while is no change."""
    known = progress.recorded_allocation
    if known is None or (allocation.designator, allocation.host) != (known.designator, known.host):
        return True
    return error_type is None and allocation != progress.allocation


def _placement_only(allocation: Allocation, known: Allocation) -> Allocation:
    """Return where the sandbox runs, as told now or before; without quantities there are no components."""
    return Allocation(designator=allocation.designator or known.designator, host=allocation.host or known.host)


def _span(  # noqa: PLR0913  # one parameter for each part of the span's identity
    sandbox: Tracked,
    name: str,
    source: ResourceSource | None,
    window: ReadWindow,
    attributes: Attributes,
    *,
    rank: Rank,
) -> OutboxItem:
    start = sandbox.lifecycle.start
    if start is None:
        raise ValueError("a sandbox without a start span has no records")
    identity = span_id(
        trace_id=start.trace_id,
        deployment=sandbox.key.owner,
        sandbox_id=sandbox.key.sandbox_id,
        span_name=name,
        source=source or "",
        start_ns=window.start_ns,
    )
    payload = encode_span(
        name=name,
        trace_id=start.trace_id,
        parent_span_id=start.span_id,
        span_id=identity,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        attributes=attributes,
        error=names.ERROR_TYPE in attributes,
    )
    return OutboxItem(signal=Signal.TRACES, rank=rank, created_ns=window.end_ns, items=1, payload=payload)
