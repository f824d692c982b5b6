"""A provider of the emitter's own, never global, for a process that has none.

The only module that needs the SDK. It hands finished spans to the SDK's processor: a tracer would first make each a
live one, which a host may sample, limit and lock, at three times the cost.
"""

# Its fork handlers must be there before the SDK's, which waits in the child for the lock that they give back.
import concurrent.futures.thread  # noqa: F401  # loaded for that alone
import logging
import os
import threading
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.finished_span import EXCEPTION_EVENT, EXCEPTION_TYPE, SCOPE_NAME, FinishedSpan
from sandgauge_emitter.otlp import Protocol, Target
from sandgauge_schemas import names
from sandgauge_schemas.version import __version__

SERVICE_NAME = "sandgauge-emitter"
"""`service.name` where the environment gives none."""

_EXPORTERS = {
    Protocol.GRPC: "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
    Protocol.HTTP: "opentelemetry.exporter.otlp.proto.http.trace_exporter",
}
# Not the host's decision: one that samples its own traces away still wants to know its sandboxes.
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)
_SCOPE = InstrumentationScope(SCOPE_NAME, __version__)
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
        self._processor = BatchSpanProcessor(
            exporter,
            max_queue_size=_QUEUE_SIZE,
            schedule_delay_millis=_SCHEDULE_DELAY_MS,
            max_export_batch_size=_BATCH_SIZE,
        )
        self._resource = _resource(service_name, run_id)
        self._close_asked = threading.Event()
        self._closing = threading.Thread(target=self._close_when_asked, name="sandgauge-emitter-close", daemon=True)
        # It waits from now on, since Python 3.12.0 and 3.12.1 start no thread at exit.
        self._closing.start()

    def send(self, finished: FinishedSpan, context: Context) -> None:
        """Queue a span in the trace of the context."""
        parent = trace.get_current_span(context).get_span_context()
        status = _UNSET
        events: tuple[Event, ...] = ()
        if finished.error_type is not None:
            status = Status(StatusCode.ERROR, finished.error_type)
            events = (Event(EXCEPTION_EVENT, {EXCEPTION_TYPE: finished.error_type}, finished.end_ns),)
        self._processor.on_end(
            ReadableSpan(
                finished.name,
                context=_context_below(parent),
                parent=parent if parent.is_valid else None,
                resource=self._resource,
                attributes=finished.attributes,
                events=events,
                status=status,
                start_time=finished.start_ns,
                end_time=finished.end_ns,
                instrumentation_scope=_SCOPE,
            )
        )

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
        self._processor.shutdown()  # type: ignore[no-untyped-call]  # the SDK's is untyped


def _context_below(parent: SpanContext) -> SpanContext:
    trace_id = parent.trace_id if parent.is_valid else _random_id(16)
    return SpanContext(trace_id, _random_id(8), is_remote=False, trace_flags=_SAMPLED, trace_state=parent.trace_state)


def _random_id(length: int) -> int:
    """Return a number of so many bytes, drawn from the system; 0 is no id.

    A training program seeds `random`, often alike in every worker: ids would come twice there, and the program's own
    numbers would depend on whether telemetry is on.
    """
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
