"""What the poller tells about itself: the instruments of the contract, behind typed methods.

Attributes are bounded: deployments of the configuration and closed lists, never the id of a sandbox or rollout.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricReader,
    MetricsData,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.resources import Resource

from sandgauge_poller.self_histograms import SelfHistograms, Where
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
    """Counts and measurements that the stages tell; `observe` adds what is looked up.

    Counts are plain integers that the SDK looks up when it collects: each reading tells several.
    """

    def __init__(self, meter: Meter, histograms: SelfHistograms) -> None:
        self._meter = meter
        self._histograms = histograms
        self._reads = self._counts(names.METRIC_SANDGAUGE_POLLER_READS)
        self._spans = self._counts(names.METRIC_SANDGAUGE_POLLER_SPANS)
        self._points_left_out = self._counts(names.METRIC_SANDGAUGE_POLLER_POINTS_LEFT_OUT)
        self._points_restamped = self._counts(names.METRIC_SANDGAUGE_POLLER_POINTS_RESTAMPED)
        self._conflicts = self._counts(names.METRIC_SANDGAUGE_POLLER_CONFLICTS)

    def read(self, deployment: str, kind: ReadKind, error_type: ErrorType | None, window: Window) -> None:
        """Count a read and take its times."""
        where = ((names.DEPLOYMENT, deployment), (names.KIND, kind.value))
        outcome = ReadOutcome.OK.value if error_type is None else error_type.value
        self._reads[*where, (names.OUTCOME, outcome)] += 1
        self._histograms.read_duration.record(where, (window.end_ns - window.start_ns) / 1e9)
        self._histograms.read_wait.record(where, window.wait_s)

    def lateness(self, deployment: str, seconds: float) -> None:
        """Take how much later than planned a read began."""
        self._histograms.read_lateness.record(((names.DEPLOYMENT, deployment),), seconds)

    def discovery_lag(self, deployment: str, seconds: float) -> None:
        """Take the time from the end of a start span to the sandbox's first good reading."""
        self._histograms.discovery_lag.record(((names.DEPLOYMENT, deployment),), seconds)

    def spans(self, outcome: SpanOutcome, reason: SpanReason | None, count: int) -> None:
        """Count spans at the ingest port; `reason` may be None for accepted and repeated ones."""
        because = () if reason is None else ((names.REASON, reason.value),)
        self._spans[(names.OUTCOME, outcome.value), *because] += count

    def points_left_out(self, reason: LeftOutReason, count: int) -> None:
        """Count data points that are not sent; for one reason always from the same thread."""
        self._points_left_out[((names.REASON, reason.value),)] += count

    def points_restamped(self, deployment: str, count: int) -> None:
        """Count data points that took the poller's time."""
        self._points_restamped[((names.DEPLOYMENT, deployment),)] += count

    def conflict(self, kind: ConflictKind) -> None:
        """Count a contradiction between lifecycle spans."""
        self._conflicts[((names.KIND, kind.value),)] += 1

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

    def _counts(self, metric: str) -> Counter[Where]:
        counts: Counter[Where] = Counter()
        self._meter.create_observable_counter(
            metric, callbacks=[lambda _: _observations(counts)], unit=names.METRIC_UNITS[metric]
        )
        return counts


def _observations(counts: Counter[Where]) -> Iterable[Observation]:
    return [Observation(count, dict(where)) for where, count in tuple(counts.items())]


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
    histograms: SelfHistograms,
    *,
    interval_s: float = EXPORT_INTERVAL_S,
    service_instance_id: str | None = None,
    other_readers: Sequence[MetricReader] = (),
) -> MeterProvider:
    """Return a provider that sends every `interval_s` seconds; nothing of it comes from the environment's OTEL_* keys.

    `send` gets a serialized ExportMetricsServiceRequest and says whether it was delivered; `histograms` are sent beside
    what the SDK counts. A sharded poller names its
    shard as `service_instance_id`. `other_readers` see the same instruments.
    """
    attributes = {names.SERVICE_NAME: names.SANDGAUGE_POLLER_SERVICE_NAME, names.SERVICE_VERSION: __version__}
    if service_instance_id is not None:
        attributes[names.SERVICE_INSTANCE_ID] = service_instance_id
    sender = PeriodicExportingMetricReader(_Exporter(send, histograms), export_interval_millis=interval_s * 1000)
    # They are shut down in turn, within one bound: the one that may have to wait for its receiver comes last.
    readers = [*other_readers, sender]
    return MeterProvider(metric_readers=readers, resource=Resource(attributes), shutdown_on_exit=False)


class _Exporter(MetricExporter):
    """The SDK's messages over the poller's own connection.

    The SDK's OTLP exporter adds headers of the environment, cannot leave a certificate unverified, and takes a redirect
    for a delivery. Sums are cumulative, so the next export makes up for a failed one.
    """

    def __init__(self, send: Callable[[bytes], bool], histograms: SelfHistograms) -> None:
        super().__init__()
        self._send = send
        self._histograms = histograms

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 10_000,  # noqa: ARG002 - the base class's signature; `send` has a bound of its own
        **_: Any,
    ) -> MetricExportResult:
        sent = self._send(encode_metrics(self._histograms.added_to(metrics_data)).SerializeToString())
        return MetricExportResult.SUCCESS if sent else MetricExportResult.FAILURE

    def force_flush(self, timeout_millis: float = 10_000) -> bool:  # noqa: ARG002 - nothing is held back
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        pass
