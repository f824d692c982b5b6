"""What the poller tells about itself: the instruments of the contract, behind typed methods.

Attributes are bounded: deployments of the configuration and closed lists, never the id of a sandbox or rollout.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource

from sandgauge_schemas import names
from sandgauge_schemas.names import (
    ConflictKind,
    ErrorType,
    ExportOutcome,
    LeftOutReason,
    ReadKind,
    ReadOutcome,
    SandboxState,
    Signal,
    SpanOutcome,
    SpanReason,
)
from sandgauge_schemas.version import __version__

EXPORT_INTERVAL_S = 10.0

_SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Window(Protocol):
    """A question's time from send to last byte, ns since the epoch, and its wait before that in s."""

    @property
    def start_ns(self) -> int:
        """When it was sent."""

    @property
    def end_ns(self) -> int:
        """When its last byte came."""

    @property
    def wait_s(self) -> float:
        """How long it waited for a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxState:
    """What waits of one signal: its bytes, the age of the oldest record in s, and the counts so far."""

    size: int
    age_s: float
    items: Mapping[ExportOutcome, int]


class Observed(Protocol):
    """What is looked up when metrics are collected, from a thread of its own; each answer is a snapshot."""

    def sandboxes(self) -> Mapping[tuple[str | None, SandboxState], int]:
        """Return how many sandboxes there are by deployment (None: unmatched) and state."""

    def leaks(self) -> Mapping[str, int]:
        """Return how many leaked sandboxes each deployment has."""

    def effective_intervals_s(self) -> Mapping[str, float]:
        """Return the interval that each deployment can carry, in s."""

    def outbox(self) -> Mapping[Signal, OutboxState]:
        """Return what waits of each signal."""


class SelfMetrics:
    """Counters and histograms that the stages write to; `observe` adds those that are looked up."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._reads = self._counter(names.METRIC_SANDGAUGE_POLLER_READS)
        self._read_duration = self._histogram(names.METRIC_SANDGAUGE_POLLER_READ_DURATION)
        self._read_wait = self._histogram(names.METRIC_SANDGAUGE_POLLER_READ_WAIT)
        self._read_lateness = self._histogram(names.METRIC_SANDGAUGE_POLLER_READ_LATENESS)
        self._discovery_lag = self._histogram(names.METRIC_SANDGAUGE_POLLER_DISCOVERY_LAG)
        self._spans = self._counter(names.METRIC_SANDGAUGE_POLLER_SPANS)
        self._points_left_out = self._counter(names.METRIC_SANDGAUGE_POLLER_POINTS_LEFT_OUT)
        self._points_restamped = self._counter(names.METRIC_SANDGAUGE_POLLER_POINTS_RESTAMPED)
        self._conflicts = self._counter(names.METRIC_SANDGAUGE_POLLER_CONFLICTS)

    def read(self, deployment: str, kind: ReadKind, error_type: ErrorType | None, window: Window) -> None:
        """Count a read and take its times."""
        where = {names.DEPLOYMENT: deployment, names.KIND: kind.value}
        outcome = ReadOutcome.OK.value if error_type is None else error_type.value
        self._reads.add(1, {**where, names.OUTCOME: outcome})
        self._read_duration.record((window.end_ns - window.start_ns) / 1e9, where)
        self._read_wait.record(window.wait_s, where)

    def lateness(self, deployment: str, seconds: float) -> None:
        """Take how much later than planned a read began."""
        self._read_lateness.record(seconds, {names.DEPLOYMENT: deployment})

    def discovery_lag(self, deployment: str, seconds: float) -> None:
        """Take the time from the end of a start span to the sandbox's first good reading."""
        self._discovery_lag.record(seconds, {names.DEPLOYMENT: deployment})

    def spans(self, outcome: SpanOutcome, reason: SpanReason | None, count: int) -> None:
        """Count spans at the ingest port; `reason` may be None for accepted and repeated ones."""
        attributes = {names.OUTCOME: outcome.value}
        if reason is not None:
            attributes[names.REASON] = reason.value
        self._spans.add(count, attributes)

    def points_left_out(self, reason: LeftOutReason, count: int) -> None:
        """Count data points that are not sent."""
        self._points_left_out.add(count, {names.REASON: reason.value})

    def points_restamped(self, deployment: str, count: int) -> None:
        """Count data points that took the poller's time."""
        self._points_restamped.add(count, {names.DEPLOYMENT: deployment})

    def conflict(self, kind: ConflictKind) -> None:
        """Count a contradiction between lifecycle spans."""
        self._conflicts.add(1, {names.KIND: kind.value})

    def observe(self, observed: Observed) -> None:
        """Create the instruments whose values are looked up; once."""
        create = self._meter
        for metric, factory, look_up in (
            (names.METRIC_SANDGAUGE_POLLER_SANDBOXES, create.create_observable_up_down_counter, _sandboxes),
            (names.METRIC_SANDGAUGE_POLLER_LEAKS, create.create_observable_up_down_counter, _leaks),
            (names.METRIC_SANDGAUGE_POLLER_INTERVAL_EFFECTIVE, create.create_observable_gauge, _intervals),
            (names.METRIC_SANDGAUGE_POLLER_OUTBOX_SIZE, create.create_observable_gauge, _outbox_size),
            (names.METRIC_SANDGAUGE_POLLER_OUTBOX_AGE, create.create_observable_gauge, _outbox_age),
            (names.METRIC_SANDGAUGE_POLLER_EXPORT_ITEMS, create.create_observable_counter, _export_items),
        ):
            factory(metric, callbacks=[_callback(look_up, observed)], unit=names.METRIC_UNITS[metric])

    def _counter(self, metric: str) -> Counter:
        return self._meter.create_counter(metric, unit=names.METRIC_UNITS[metric])

    def _histogram(self, metric: str) -> Histogram:
        return self._meter.create_histogram(
            metric, unit=names.METRIC_UNITS[metric], explicit_bucket_boundaries_advisory=_SECONDS_BUCKETS
        )


_LookUp = Callable[[Observed], Iterable[Observation]]


def _callback(look_up: _LookUp, observed: Observed) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: look_up(observed)


def _sandboxes(observed: Observed) -> Iterable[Observation]:
    for (deployment, state), count in observed.sandboxes().items():
        where = {} if deployment is None else {names.DEPLOYMENT: deployment}
        yield Observation(count, {**where, names.STATE: state.value})


def _leaks(observed: Observed) -> Iterable[Observation]:
    for deployment, count in observed.leaks().items():
        yield Observation(count, {names.DEPLOYMENT: deployment})


def _intervals(observed: Observed) -> Iterable[Observation]:
    for deployment, seconds in observed.effective_intervals_s().items():
        yield Observation(seconds, {names.DEPLOYMENT: deployment})


def _outbox_size(observed: Observed) -> Iterable[Observation]:
    for signal, state in observed.outbox().items():
        yield Observation(state.size, {names.SIGNAL: signal.value})


def _outbox_age(observed: Observed) -> Iterable[Observation]:
    for signal, state in observed.outbox().items():
        yield Observation(state.age_s, {names.SIGNAL: signal.value})


def _export_items(observed: Observed) -> Iterable[Observation]:
    for signal, state in observed.outbox().items():
        for outcome, count in state.items.items():
            yield Observation(count, {names.SIGNAL: signal.value, names.OUTCOME: outcome.value})


def make_meter_provider(
    send: Callable[[bytes], bool],
    *,
    interval_s: float = EXPORT_INTERVAL_S,
    service_instance_id: str | None = None,
    other_readers: Sequence[MetricReader] = (),
) -> MeterProvider:
    """Return a provider that sends every `interval_s` seconds; nothing of it comes from the environment's OTEL_* keys.

    `send` gets a serialized ExportMetricsServiceRequest and says whether it was delivered. A sharded poller names its
    shard as `service_instance_id`. `other_readers` see the same instruments.
    """
    attributes = {names.SERVICE_NAME: names.SANDGAUGE_POLLER_SERVICE_NAME, names.SERVICE_VERSION: __version__}
    if service_instance_id is not None:
        attributes[names.SERVICE_INSTANCE_ID] = service_instance_id
    sender = PeriodicExportingMetricReader(_Exporter(send), export_interval_millis=interval_s * 1000)
    # They are shut down in turn, within one bound: the one that may have to wait for its receiver comes last.
    readers = [*other_readers, sender]
    return MeterProvider(metric_readers=readers, resource=Resource(attributes), shutdown_on_exit=False)


class _Exporter(MetricExporter):
    """The SDK's messages over the poller's own connection.

    The SDK's OTLP exporter adds headers of the environment, cannot leave a certificate unverified, and takes a redirect
    for a delivery. Sums are cumulative, so the next export makes up for a failed one.
    """

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        super().__init__()
        self._send = send

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 10_000,  # noqa: ARG002 - the base class's signature; `send` has a bound of its own
        **_: Any,
    ) -> MetricExportResult:
        sent = self._send(encode_metrics(metrics_data).SerializeToString())
        return MetricExportResult.SUCCESS if sent else MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 10_000) -> bool:  # noqa: ARG002 - nothing is held back
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        pass
