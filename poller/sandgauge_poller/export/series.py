"""The live series of a sandbox: points whose times rise, sums that know their start, and an end for each."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sandgauge_poller.export.messages import MetricPoint, encode_points
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.export.sandbox_encoding import SandboxEncoding
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_poller.tracking.progress import Progress, Series
from sandgauge_schemas.names import SampleScope, Signal

MILLISECOND_NS = 1_000_000
"""Least distance of two points in a series: backends cut times to milliseconds."""


class Points(NamedTuple):
    """Points to send, how many were left out since their time would not have risen, and how many were restamped."""

    points: tuple[MetricPoint, ...] = ()
    left_out: int = 0
    restamped: int = 0


Observed = tuple[float, SampleScope | None, int | None]
"""One quantity as just read, and whose machine it describes; of a sum, since when it accumulates (ns)."""


def advance(
    progress: Progress,
    encoding: SandboxEncoding,
    observed: Mapping[str, Observed],
    timestamp_ns: int | None,
    window: ReadWindow,
) -> Points:
    """Return the next point of each metric; a series whose attributes change is closed first.

    `timestamp_ns` is the source's own time, in ns since the epoch.
    """
    settings = encoding.settings
    if not settings.metrics or progress.end is not None:
        return Points()
    time_ns, restamped = _point_time(timestamp_ns, window, settings.max_clock_skew_ns)
    live = progress.series
    points: list[MetricPoint] = []
    left_out = 0
    for metric, (value, scope, since_ns) in observed.items():
        attributes, before = encoding.series(scope), live.get(metric)
        if before is not None and before.attributes is not attributes and before.attributes != attributes:
            # Just before the first point of the new series: as fresh as that one, however long ago the old one was.
            if time_ns < before.last_ns + 2 * MILLISECOND_NS:
                left_out += 1
                continue
            points.append(_closing_point(metric, before, time_ns - MILLISECOND_NS))
        elif before is not None and time_ns < before.last_ns + MILLISECOND_NS:
            left_out += 1
            continue
        start_ns = None if since_ns is None else min(since_ns, time_ns)
        if before is None or before.attributes is not attributes:
            live[metric] = Series(attributes, time_ns, start_ns)
        else:
            before.last_ns, before.start_ns = time_ns, start_ns
        points.append(MetricPoint(metric, value, time_ns, attributes, start_ns))
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


def _closing_point(metric: str, series: Series, time_ns: int) -> MetricPoint:
    return MetricPoint(
        metric=metric, value=None, time_ns=time_ns, attributes=series.attributes, start_ns=series.start_ns
    )
