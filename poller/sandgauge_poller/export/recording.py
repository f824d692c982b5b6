"""From readings to records: pure steps that change a sandbox's progress and return what to put into the outbox."""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.export.sandbox_encoding import SandboxEncoding
from sandgauge_poller.export.series import MILLISECOND_NS, Observed, Points, advance
from sandgauge_poller.export.spans import record_span
from sandgauge_poller.export.usage import total_cpu_time_s
from sandgauge_poller.reading.provider import AllocationReading, ReadWindow, SampleReading, Usage
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import Progress, ReadingAccount
from sandgauge_poller.tracking.quantities import EXECD_QUANTITIES, USAGE_QUANTITIES
from sandgauge_poller.tracking.sender_clock import lifetime_s
from sandgauge_schemas import names
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.records import (
    Allocation,
    AllocationRecord,
    ReadingStatus,
    RequestRecord,
    SampleRecord,
    SummaryRecord,
)
from sandgauge_schemas.records.sample import sample_attributes

_SILENT = frozenset({ErrorType.TIMEOUT, ErrorType.CONNECTION, ErrorType.HTTP_ERROR, ErrorType.UNAUTHORIZED})
"""Outcomes that say nothing of the allocation: one that is known stays in force."""

_CPU_METRICS = (names.METRIC_GYM_SANDBOX_CPU_COUNT, names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE)


def record_allocation(sandbox: Tracked, encoding: SandboxEncoding, reading: AllocationReading) -> OutboxItem | None:
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
    head = encoding.head(names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, reading.source)
    return record_span(head, reading.window, record.to_attributes(), rank=Rank.LASTING)


def record_sample(
    sandbox: Tracked, encoding: SandboxEncoding, reading: SampleReading, missed: int, *, is_final: bool
) -> OutboxItem:
    """Return the reading's span, and count it; its scopes are those decided in the progress."""
    progress, usage = sandbox.progress, reading.usage
    progress.missed += missed
    if usage is None:
        progress.count_failed(reading.window.start_ns)
        status = ReadingStatus(source=reading.source, error_type=reading.error_type)
        head = encoding.head(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, reading.source)
        attributes = SampleRecord(keys=encoding.keys, status=status, final=is_final or None).to_attributes()
    else:
        progress.count_good(reading.window.start_ns)
        progress.condense(usage_values(usage))
        head = encoding.sample_head(progress, reading.source)
        attributes = sample_attributes(
            usage.timestamp_ms,
            usage.cpu_count,
            usage.cpu_used_percentage,
            usage.memory_total_mib,
            usage.memory_used_mib,
        )
        if is_final:
            attributes[names.NEMO_GYM_SANDBOX_SAMPLE_FINAL] = True
    return record_span(head, reading.window, attributes, rank=Rank.SAMPLE)


def sample_points(sandbox: Tracked, encoding: SandboxEncoding, reading: SampleReading) -> Points:
    """Return the gauge points of a good reading."""
    usage = reading.usage
    if usage is None:
        return Points()
    cpu, memory = sandbox.progress.cpu, sandbox.progress.memory
    cpu_scope, memory_scope = cpu.scope if cpu else None, memory.scope if memory else None
    observed: dict[str, Observed] = {
        metric: (value, cpu_scope if metric in _CPU_METRICS else memory_scope, None)
        for metric, value in usage_values(usage).items()
    }
    timestamp_ns = None if usage.timestamp_ms is None else usage.timestamp_ms * MILLISECOND_NS
    return advance(sandbox.progress, encoding, observed, timestamp_ns, reading.window)


def record_summary(sandbox: Tracked, encoding: SandboxEncoding, request: RequestRecord | None) -> OutboxItem | None:
    """Return the summary's span; None for a sandbox that has not ended."""
    progress, start = sandbox.progress, sandbox.lifecycle.start
    if progress.end is None or start is None:
        return None
    allocation = progress.allocation or progress.recorded_allocation or Allocation()
    usage = progress.usage
    readings = _readings(sandbox)
    record = SummaryRecord(
        keys=sandbox.keys,
        end_reason=progress.end.reason,
        leaked=progress.leaked,
        oom_killed=progress.oom_killed,
        lifetime_s=lifetime_s(sandbox.lifecycle, progress),
        readings_count=readings.readings,
        readings_missed=readings.missed,
        effective_interval_s=readings.effective_interval_s,
        statistics={
            quantity: progress.statistics[metric].result()
            for metric, quantity in (EXECD_QUANTITIES | USAGE_QUANTITIES).items()
            if metric in progress.statistics
        },
        cpu_scope=progress.cpu.scope if progress.cpu else None,
        memory_scope=progress.memory.scope if progress.memory else None,
        cpu_time_s=total_cpu_time_s(usage) if usage else None,
        oom_kills=usage.kills if usage else None,
        usage_source=usage.source if usage else None,
        # The same restart may be seen by both.
        resets=max(progress.resets, usage.resets if usage else 0),
        submission=start.record.submission,
        allocation=allocation,
    )
    if request is not None:
        record = replace(record, requested_count=request.count, requested=request.requested, sidecars=request.sidecars)
    window = ReadWindow(progress.end.at_ns, progress.end.at_ns)
    head = encoding.head(names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY, None)
    return record_span(head, window, record.to_attributes(), rank=Rank.LASTING)


_numbers: Callable[[Usage], tuple[float | None, ...]] = attrgetter(*EXECD_QUANTITIES.values())


def usage_values(usage: Usage) -> dict[str, float]:
    """Return the numbers of a good reading by metric name."""
    values = zip(EXECD_QUANTITIES, _numbers(usage), strict=True)
    return {metric: value for metric, value in values if value is not None}


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


def _readings(sandbox: Tracked) -> ReadingAccount:
    """Return whose readings a summary counts: those of execd, or where it was never asked those of the usage source."""
    progress = sandbox.progress
    if progress.usage is None or progress.readings or progress.missed:
        return progress
    return progress.usage


def _is_another(allocation: Allocation, progress: Progress, error_type: ErrorType | None) -> bool:
    """Tell whether what is in force changed; that it cannot be told for a while is no change."""
    known = progress.recorded_allocation
    if known is None or (allocation.designator, allocation.host) != (known.designator, known.host):
        return True
    return error_type is None and allocation != progress.allocation


def _placement_only(allocation: Allocation, known: Allocation) -> Allocation:
    """Return where the sandbox runs, as told now or before; without quantities there are no components."""
    return Allocation(designator=allocation.designator or known.designator, host=allocation.host or known.host)
