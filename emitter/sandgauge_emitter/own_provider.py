"""A tracer provider of the emitter's own, never global, for a process that has none.

The only module that needs the SDK.
"""

# Its fork handlers must be there before the SDK's, which waits in the child for the lock that they give back.
import concurrent.futures.thread  # noqa: F401  # loaded for that alone
import logging
import os
import threading
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.otlp import Protocol, Target
from sandgauge_schemas import names
from sandgauge_schemas.version import __version__

SERVICE_NAME = "sandgauge-emitter"
"""`service.name` where the environment gives none."""

_EXPORTERS = {
    Protocol.GRPC: "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
    Protocol.HTTP: "opentelemetry.exporter.otlp.proto.http.trace_exporter",
}
_SCHEDULE_DELAY_MS = 500
_QUEUE_SIZE = 8192
_BATCH_SIZE = 512


def is_installed(protocol: Protocol) -> bool:
    """Return whether the exporter of a protocol could be loaded."""
    with suppress(ModuleNotFoundError):
        return find_spec(_EXPORTERS[protocol]) is not None
    return False


class OwnProvider:
    """Sends every span within a second; its queue is bounded and drops the oldest spans when the Collector is away.

    `service_name` and `run_id` go into the resource.
    """

    def __init__(self, exporter: SpanExporter, *, service_name: str | None, run_id: str | None) -> None:
        processor = BatchSpanProcessor(
            exporter,
            max_queue_size=_QUEUE_SIZE,
            schedule_delay_millis=_SCHEDULE_DELAY_MS,
            max_export_batch_size=_BATCH_SIZE,
        )
        provider = TracerProvider(
            # A host that samples its own traces away still wants to know its sandboxes.
            sampler=ALWAYS_ON,
            resource=_resource(service_name, run_id),
            # The SDK's own end waits thirty seconds for a Collector that is away.
            shutdown_on_exit=False,
            id_generator=_UnseededIdGenerator(),
            # The limit of other spans would drop the join keys of a request with many sidecars.
            span_limits=SpanLimits(max_span_attributes=SpanLimits.UNSET, max_span_attribute_length=SpanLimits.UNSET),
        )
        provider.add_span_processor(processor)
        self.tracer = provider.get_tracer("sandgauge_emitter", __version__)
        self._provider = provider
        self._close_asked = threading.Event()
        self._closing = threading.Thread(target=self._close_when_asked, name="sandgauge-emitter-close", daemon=True)
        # It waits from now on, since Python 3.12.0 and 3.12.1 start no thread at exit.
        self._closing.start()

    @property
    def is_closed(self) -> bool:
        """Whether everything was sent or given up after `close`."""
        return not self._closing.is_alive()

    def close(self, timeout_s: float) -> None:
        """Send what is left; return when that is done or the time is over, whichever comes first."""
        self._close_asked.set()
        self._closing.join(timeout_s)

    def _close_when_asked(self) -> None:
        self._close_asked.wait()
        self._provider.shutdown()


class _UnseededIdGenerator(IdGenerator):
    """Draws from the system: a training program seeds `random`, often alike in every worker.

    Ids would come twice there, and the program's own numbers would depend on whether telemetry is on.
    """

    def generate_span_id(self) -> int:
        return _random_bits(8)

    def generate_trace_id(self) -> int:
        return _random_bits(16)


def _random_bits(length: int) -> int:
    """Return a number of so many bytes; 0 is no id."""
    return int.from_bytes(os.urandom(length)) or 1


def otlp_exporter(target: Target) -> SpanExporter:
    """Return the exporter to a target.

    Raises:
        ImportError: The exporter of its protocol is not installed.

    """
    exporter_type = import_module(_EXPORTERS[target.protocol]).OTLPSpanExporter
    # The exporter parses the headers' variable once more, and that parser prints an entry that it refuses.
    parser = logging.getLogger("opentelemetry.util.re")
    parser.addFilter(_drop)
    try:
        exporter: SpanExporter = exporter_type(
            endpoint=target.endpoint, headers=dict(target.headers), timeout=target.timeout_s
        )
    finally:
        parser.removeFilter(_drop)
    return exporter


def console_exporter() -> SpanExporter:
    """Return an exporter that prints each span as one line of JSON."""
    return ConsoleSpanExporter(formatter=_line)


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


def _drop(_record: logging.LogRecord) -> bool:
    return False


def _resource(service_name: str | None, run_id: str | None) -> Resource:
    # Detectors other than that of the environment may ask the network.
    attributes = {names.SERVICE_NAME: SERVICE_NAME, **OTELResourceDetector().detect().attributes}
    attributes |= {key: said for key, said in ((names.SERVICE_NAME, service_name), (names.NEMO_RUN_ID, run_id)) if said}
    sendable = {key: value for key, value in attributes.items() if _is_text(key) and _is_text(value)}
    if len(sendable) < len(attributes):
        FAULTS.note("OTEL_RESOURCE_ATTRIBUTES or OTEL_SERVICE_NAME holds what is no valid text, so no span has it")
    return Resource({names.SERVICE_NAME: SERVICE_NAME, **sendable})


def _is_text(value: object) -> bool:
    """Whether it can be sent: bytes of the environment that are no UTF-8 cannot, and would cost every batch."""
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True
