"""From answers of a usage source to records: pure steps that change a sandbox's progress, as those of its daemon do."""

from dataclasses import dataclass, replace

from sandgauge_poller.export.messages import MetricPoint
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.export.sandbox_encoding import SandboxEncoding
from sandgauge_poller.export.series import MILLISECOND_NS, Observed, Points, advance
from sandgauge_poller.export.spans import record_span
from sandgauge_poller.reading.usage.rates import UsageWindow, mark_of, window_since
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageObservation
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import Progress, UsageProgress
from sandgauge_poller.tracking.quantities import USAGE_QUANTITIES
from sandgauge_schemas import names
from sandgauge_schemas.names import ResourceSource, SampleScope
from sandgauge_schemas.records import ReadingStatus, UsageRecord


@dataclass(frozen=True, slots=True)
class UsageRecorded:
    """What one answer leaves: its span, and the points of a good one."""

    span: OutboxItem
    points: Points


def record_usage(sandbox: Tracked, encoding: SandboxEncoding, answer: UsageAnswer, missed: int) -> UsageRecorded | None:
    """Return what an answer leaves, and count it; None where it says nothing new.

    `missed`: how many readings that were due yielded nothing, this one included.
    """
    progress, now = sandbox.progress, answer.observation
    usage = _usage_of(progress, answer.source)
    usage.missed += missed
    record = UsageRecord(keys=sandbox.keys, status=ReadingStatus(source=answer.source, error_type=answer.error_type))
    if now is None:
        usage.count_failed(answer.window.start_ns)
        return UsageRecorded(_span(encoding, answer, record), Points())
    window = window_since(usage.mark, now, answer.window.start_ns - (usage.last_reading_ns or 0))
    if window is None:
        return None
    _take(usage, answer, now, window)
    record = replace(
        record,
        timestamp_ms=now.timestamp_ns // MILLISECOND_NS,
        cpu_used_cores=window.cpu_used_cores,
        window_s=window.window_s,
        cpu_time_s=now.cpu_time_s,
        memory_working_set_mib=now.memory_working_set_mib,
        cpu_throttled_s=now.cpu_throttled_s,
        oom_kills=usage.kills,
    )
    found = {metric: getattr(record, quantity) for metric, quantity in USAGE_QUANTITIES.items()}
    values = {metric: value for metric, value in found.items() if value is not None}
    progress.condense(values)
    observed: dict[str, Observed] = {metric: (value, SampleScope.SANDBOX, None) for metric, value in values.items()}
    points = advance(sandbox.progress, encoding, observed | _sums(usage), now.timestamp_ns, answer.window)
    usage.kills_told = usage.kills or 0
    return UsageRecorded(_span(encoding, answer, record), points)


def take_kills(progress: Progress, source: ResourceSource, kills: Kills) -> bool:
    """Keep what is known of kills; return whether that is news."""
    usage, before = _usage_of(progress, source), progress.oom_killed
    # That it was seen stays seen; that it was not says something only where nothing else does.
    progress.oom_killed = kills.main_killed or (kills.main_killed if before is None else before)
    if kills.count is None:
        return progress.oom_killed != before
    is_first = usage.kills is None
    known = usage.kills_watched if kills.since_ns == usage.kills_watch_ns else 0
    new = max(0, kills.count - known)
    usage.kills = (usage.kills or 0) + new
    usage.kills_since_ns = usage.kills_since_ns or kills.since_ns
    usage.kills_watch_ns, usage.kills_watched = kills.since_ns, kills.count
    return bool(new) or is_first or progress.oom_killed != before


def last_kills(progress: Progress, now_ns: int) -> tuple[MetricPoint, ...]:
    """Return a last point of the kills' series if there were more: what ended a sandbox is told by no reading."""
    usage, series = progress.usage, progress.series.get(names.METRIC_GYM_SANDBOX_OOM_KILLS)
    if usage is None or series is None or not usage.kills or usage.kills <= usage.kills_told:
        return ()
    series.last_ns = max(series.last_ns + MILLISECOND_NS, now_ns)
    return (
        MetricPoint(
            metric=names.METRIC_GYM_SANDBOX_OOM_KILLS,
            value=float(usage.kills),
            time_ns=series.last_ns,
            attributes=series.attributes,
            start_ns=series.start_ns,
        ),
    )


def total_cpu_time_s(usage: UsageProgress) -> float | None:
    """Return the CPU time of all lives, in seconds, as far as it was seen; None where the source does not tell."""
    if usage.mark is None or usage.mark.cpu_time_s is None:
        return None
    return usage.earlier_cpu_time_s + usage.mark.cpu_time_s


def _usage_of(progress: Progress, source: ResourceSource) -> UsageProgress:
    """Return what that source has told so far; numbers of another one are never mixed with its."""
    if progress.usage is None or progress.usage.source is not source:
        progress.usage = UsageProgress(source=source)
    return progress.usage


def _take(usage: UsageProgress, answer: UsageAnswer, now: UsageObservation, window: UsageWindow) -> None:
    usage.count_good(answer.window.start_ns)
    if window.is_reset and usage.mark is not None:
        usage.resets += 1
        usage.earlier_cpu_time_s += usage.mark.cpu_time_s or 0.0
        usage.since_ns = now.started_ns or usage.mark.timestamp_ns
    elif usage.since_ns is None:
        usage.since_ns = now.started_ns or now.timestamp_ns
    usage.mark = mark_of(now)


def _sums(usage: UsageProgress) -> dict[str, Observed]:
    sums: dict[str, Observed] = {}
    if usage.mark is not None and usage.mark.cpu_time_s is not None:
        sums[names.METRIC_GYM_SANDBOX_CPU_TIME] = (usage.mark.cpu_time_s, SampleScope.SANDBOX, usage.since_ns)
    if usage.kills is not None:
        sums[names.METRIC_GYM_SANDBOX_OOM_KILLS] = (float(usage.kills), SampleScope.SANDBOX, usage.kills_since_ns)
    return sums


def _span(encoding: SandboxEncoding, answer: UsageAnswer, record: UsageRecord) -> OutboxItem:
    head = encoding.head(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, answer.source)
    return record_span(head, answer.window, record.to_attributes(), rank=Rank.SAMPLE)
