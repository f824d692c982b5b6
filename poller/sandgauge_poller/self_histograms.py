"""The poller's histograms of seconds, counted by ourselves: four of them take every reading.

The SDK's instruments cost ten microseconds for each measurement (with two readers), which for four of them is as much
as a reading's whole record. Collected, these look like the SDK's own.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    ScopeMetrics,
)

from sandgauge_schemas import names

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets, each included; one more bucket has no bound."""

Where = tuple[tuple[str, str], ...]
"""Attributes of one series."""


@dataclass(slots=True)
class _Series:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum: float = 0.0
    min: float = float("inf")
    max: float = float("-inf")


class SecondsHistogram:
    """One histogram; from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._series: dict[Where, _Series] = {}

    def record(self, where: Where, seconds: float) -> None:
        """Take one measurement."""
        with self._lock:
            series = self._series.get(where)
            if series is None:
                series = self._series[where] = _Series()
            series.counts[bisect_left(BOUNDS_S, seconds)] += 1
            series.sum += seconds
            series.min = min(series.min, seconds)
            series.max = max(series.max, seconds)

    def collect(self, start_ns: int, now_ns: int) -> Metric:
        """Return what was recorded since `start_ns`."""
        with self._lock:
            points = [_point(where, series, start_ns, now_ns) for where, series in self._series.items()]
        data = Histogram(points, AggregationTemporality.CUMULATIVE)
        return Metric(self._name, "", names.METRIC_UNITS[self._name], data)


class SelfHistograms:
    """All histograms of one poller, as of the instrumentation scope of that name."""

    def __init__(self, scope: str, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._scope = scope
        self._now_ns = now_ns
        self._start_ns = now_ns()
        self.read_duration = SecondsHistogram(names.METRIC_SANDGAUGE_POLLER_READ_DURATION)
        self.read_wait = SecondsHistogram(names.METRIC_SANDGAUGE_POLLER_READ_WAIT)
        self.read_lateness = SecondsHistogram(names.METRIC_SANDGAUGE_POLLER_READ_LATENESS)
        self.discovery_lag = SecondsHistogram(names.METRIC_SANDGAUGE_POLLER_DISCOVERY_LAG)

    def added_to(self, collected: MetricsData) -> MetricsData:
        """Return what the SDK collected with the histograms that have measurements."""
        now_ns = self._now_ns()
        everything = (self.read_duration, self.read_wait, self.read_lateness, self.discovery_lag)
        found = [metric for metric in (one.collect(self._start_ns, now_ns) for one in everything) if _points(metric)]
        return replace(
            collected,
            resource_metrics=[
                replace(
                    of_resource,
                    scope_metrics=[_joined(of_scope, self._scope, found) for of_scope in of_resource.scope_metrics],
                )
                for of_resource in collected.resource_metrics
            ],
        )


def _joined(metrics: ScopeMetrics, scope: str, more: Sequence[Metric]) -> ScopeMetrics:
    if metrics.scope.name != scope:
        return metrics
    return replace(metrics, metrics=[*metrics.metrics, *more])


def _points(metric: Metric) -> Sequence[object]:
    return metric.data.data_points


def _point(where: Where, series: _Series, start_ns: int, now_ns: int) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=dict(where),
        start_time_unix_nano=start_ns,
        time_unix_nano=now_ns,
        count=sum(series.counts),
        sum=series.sum,
        bucket_counts=tuple(series.counts),
        explicit_bounds=BOUNDS_S,
        min=series.min,
        max=series.max,
    )
