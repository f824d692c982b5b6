"""The live series of a sandbox: points whose times rise, sums that know their start, and an end for each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sandgauge_poller.export.messages import MetricPoint, encode_points
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import Progress, Series
from sandgauge_schemas import names
from sandgauge_schemas.names import SampleScope, Signal

MILLISECOND_NS = 1_000_000
"""Least distance of two points in a series: backends cut times to milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSettings:
    """Which points are made, and how far a source's clock may be off the reading's window (ns)."""

    metrics: bool
    rollout_id: bool
    request_id: bool
    max_clock_skew_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Points to send, how many were left out since their time would not have risen, and how many were restamped."""

    points: tuple[MetricPoint, ...] = ()
    left_out: int = 0
    restamped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One quantity as just read, and whose machine it describes; of a sum, since when it accumulates (ns)."""

    value: float
    scope: SampleScope | None
    start_ns: int | None = None


def advance(
    sandbox: Tracked,
    observed: Mapping[str, Observed],
    timestamp_ns: int | None,
    window: ReadWindow,
    settings: PointSettings,
) -> Points:
    """Return the next point of each metric; a series whose attributes change is closed first.

    `timestamp_ns` is the source's own time, in ns since the epoch.
    """
    if not settings.metrics or sandbox.progress.end is not None:
        return Points()
    time_ns, restamped = _point_time(timestamp_ns, window, settings.max_clock_skew_ns)
    keys = _metric_keys(sandbox, settings)
    points: list[MetricPoint] = []
    left_out = 0
    for metric, quantity in observed.items():
        attributes = {**keys, **({names.NEMO_GYM_SANDBOX_SAMPLE_SCOPE: quantity.scope} if quantity.scope else {})}
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
        start_ns = None if quantity.start_ns is None else min(quantity.start_ns, time_ns)
        sandbox.progress.series[metric] = Series(attributes, time_ns, start_ns)
        points.append(
            MetricPoint(metric=metric, value=quantity.value, time_ns=time_ns, attributes=attributes, start_ns=start_ns)
        )
    return Points(points=tuple(points), left_out=left_out, restamped=len(observed) if restamped else 0)


def close_series(progress: Progress, now_ns: int) -> tuple[MetricPoint, ...]:
    """Return one closing point for each live series, later than its last, and forget the series."""
    points = tuple(
        _closing_point(metric, series, max(series.last_ns + MILLISECOND_NS, now_ns))
        for metric, series in progress.series.items()
    )
    progress.series = {}
    return points


def points_item(points: Iterable[MetricPoint]) -> OutboxItem | None:
    """Return the outbox row of some points, or None without any."""
    found = tuple(points)
    if not found:
        return None
    created_ns = min(point.time_ns for point in found)
    payload = encode_points(found)
    return OutboxItem(signal=Signal.METRICS, rank=Rank.POINT, created_ns=created_ns, items=len(found), payload=payload)


def _point_time(timestamp_ns: int | None, window: ReadWindow, max_skew_ns: int) -> tuple[int, bool]:
    """Return the source's own time in ns, or the receive time and True where that cannot be right."""
    if timestamp_ns is not None and window.start_ns - max_skew_ns <= timestamp_ns <= window.end_ns + max_skew_ns:
        return timestamp_ns, False
    return window.end_ns, True


def _metric_keys(sandbox: Tracked, settings: PointSettings) -> dict[str, str]:
    keys = sandbox.keys
    kept = replace(
        keys,
        rollout_id=keys.rollout_id if settings.rollout_id else None,
        request_id=keys.request_id if settings.request_id else None,
    )
    return {key: str(value) for key, value in kept.to_attributes().items()}


def _closing_point(metric: str, series: Series, time_ns: int) -> MetricPoint:
    return MetricPoint(
        metric=metric, value=None, time_ns=time_ns, attributes=series.attributes, start_ns=series.start_ns
    )
