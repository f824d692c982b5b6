"""What the sink got, looked into afterwards."""

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bench.sink import FRAME
from sandgauge_schemas import names


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request: when it was whole (ns since the epoch), and its bytes on the wire."""

    arrived_ns: int
    size: int
    message: ExportTraceServiceRequest | ExportMetricsServiceRequest


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample span, and when the Collector had it; times in ns since the epoch on one clock."""

    sandbox_id: str
    start_ns: int
    end_ns: int
    arrived_ns: int
    error_type: str | None


class Deliveries:
    """The file of a sink, read on from where it was read to."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0

    def more(self, settled: int) -> Iterator[Delivery]:
        """Yield what came since, up to the size to which the sink has settled: the rest may not be whole."""
        with self._file.open("rb") as file:
            file.seek(self._position)
            while self._position < settled:
                arrived_ns, is_traces, is_packed, size = FRAME.unpack(file.read(FRAME.size))
                body = file.read(size)
                self._position = file.tell()
                kind = ExportTraceServiceRequest if is_traces else ExportMetricsServiceRequest
                yield Delivery(arrived_ns, size, kind.FromString(gzip.decompress(body) if is_packed else body))


def readings(deliveries: Iterable[Delivery]) -> Iterator[Reading]:
    """Yield the readings among them, good and failed."""
    for delivery in deliveries:
        if not isinstance(delivery.message, ExportTraceServiceRequest):
            continue
        for resource in delivery.message.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    if span.name == names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE:
                        told = {one.key: one.value.string_value for one in span.attributes}
                        yield Reading(
                            told[names.NEMO_GYM_SANDBOX_ID],
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            delivery.arrived_ns,
                            told.get(names.ERROR_TYPE),
                        )
