"""What a long run's Collector has seen: readings, which series live, and what broke the telemetry contract."""

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from bench.deliveries import Deliveries, Reading, readings
from bench.processes import SinkProcess
from sandgauge_schemas import names
from support.conformance import metrics_violations, trace_violations
from support.delivered import GAUGES
from support.otlp_proto import points_of
from support.waiting import wait_until

_SETTLE_S = 60.0


class Seen:
    """Everything so far, as of the last `follow`."""

    def __init__(self, sink: SinkProcess) -> None:
        self._sink = sink
        self._deliveries = Deliveries(sink.file)
        self._alive: set[tuple[str, str]] = set()
        self.readings: list[Reading] = []
        self.violations: list[str] = []

    @property
    def series(self) -> int:
        """How many series there are whose last point is no closing one."""
        return len(self._alive)

    def follow(self) -> None:
        """Look into what came since."""
        for delivery in self._deliveries.more(self._sink.settle()):
            if isinstance(delivery.message, ExportMetricsServiceRequest):
                self.violations += metrics_violations(delivery.message)
                self._follow_series(delivery.message)
            else:
                self.violations += trace_violations(delivery.message)
                self.readings += readings([delivery])

    def settles(self, series: int) -> bool:
        """Wait until so many series live, and return whether they ever did."""

        def there() -> bool:
            self.follow()
            return self.series == series

        try:
            wait_until(there, timeout_s=_SETTLE_S, what=f"{series} live series", interval_s=1.0)
        except TimeoutError:
            return False
        return True

    def _follow_series(self, message: ExportMetricsServiceRequest) -> None:
        for point in sorted(points_of(message), key=lambda point: point.time_ns):
            if point.name in GAUGES:
                series = (point.name, point.attributes[names.NEMO_GYM_SANDBOX_ID])
                (self._alive.discard if point.value is None else self._alive.add)(series)
