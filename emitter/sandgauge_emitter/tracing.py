"""Who takes the spans: the host's SDK where there is one, else a provider of our own."""

import atexit
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider

from sandgauge_emitter import inputs, otlp
from sandgauge_emitter.faults import FAULTS, describe, warn
from sandgauge_emitter.finished_span import EXCEPTION_EVENT, EXCEPTION_TYPE, SCOPE_NAME, FinishedSpan
from sandgauge_emitter.locks import LOCK
from sandgauge_emitter.settings import SETTINGS, Exporter
from sandgauge_schemas import names
from sandgauge_schemas.attributes import text
from sandgauge_schemas.version import __version__

if TYPE_CHECKING:
    from sandgauge_emitter.own_provider import OwnProvider

EXIT_FLUSH_S = 3.0
"""How long the end of the process waits at most for spans that are not sent yet, however many there are."""


@dataclass(frozen=True, slots=True)
class _Own:
    """What came of setting up a provider for an endpoint and a run; None when it failed, which is not tried again."""

    endpoint: str | None
    run_id: str | None
    provider: "OwnProvider | None"


class Tracing:
    """Emits finished spans of this process. A child made by fork starts anew and leaves its parent's spans alone."""

    def __init__(self) -> None:
        self._begin()
        self._ends_with_process = False
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._host: tuple[TracerProvider, Tracer] | None = None
        self._own: _Own | None = None
        self._replaced: list[OwnProvider] = []
        self._exit_by: float | None = None

    def emit(self, finished: FinishedSpan, context: Context) -> None:
        """Make a span in the trace of the context; without a way to send it, do nothing."""
        host = _host_provider()
        if host is not None:
            _record(finished, self._tracer_of(host), context)
        elif (own := self._own_provider()) is not None:
            own.send(finished, context)

    def close(self) -> None:
        """Send what is left, within one bound for all of it, however often this is called."""
        if self._exit_by is None:
            self._exit_by = time.monotonic() + EXIT_FLUSH_S
        current = self._own.provider if self._own is not None else None
        for provider in (*self._replaced, current):
            if provider is not None:
                provider.close(max(0.0, self._exit_by - time.monotonic()))

    def _tracer_of(self, host: TracerProvider) -> Tracer:
        known = self._host
        if known is None or known[0] is not host:
            known = self._host = (host, host.get_tracer(SCOPE_NAME, __version__))
        return known[1]

    def _own_provider(self) -> "OwnProvider | None":
        own = self._own
        if own is None or (own.endpoint, own.run_id) != (SETTINGS.endpoint, SETTINGS.run_id):
            own = self._set_up()
        return own.provider

    def _set_up(self) -> _Own:
        with LOCK:
            endpoint, run_id = SETTINGS.endpoint, SETTINGS.run_id
            own = self._own
            if own is not None and (own.endpoint, own.run_id) == (endpoint, run_id):
                return own  # another thread was faster
            if own is not None and own.provider is not None:
                own.provider.close(0)
                self._replaced = [one for one in (*self._replaced, own.provider) if not one.is_closed]
            self._own = own = _Own(endpoint, run_id, _new_provider(endpoint, run_id))
            if own.provider is not None:
                self._end_with_process()
            return own

    def _end_with_process(self) -> None:
        """Have `close` called at exit. Called late, so that what the exporter registers outlives it."""
        if not self._ends_with_process:
            self._ends_with_process = True
            atexit.register(self.close)
        # A worker of a pool skips atexit, and forgets in each fork what runs in its stead.
        if (workers := sys.modules.get("multiprocessing.util")) is not None:
            workers.Finalize(None, self.close, exitpriority=0)


TRACING = Tracing()
"""The tracing of this process."""


def preload() -> None:
    """Load what the first span may need, so that no event loop waits for it then. Whatever is wrong is said then."""
    with suppress(Exception):
        from sandgauge_emitter import own_provider  # noqa: PLC0415  # as in _new_provider

        if SETTINGS.exporter is Exporter.OTLP:
            target = otlp.resolve(SETTINGS.environment, SETTINGS.endpoint, own_provider.is_installed)
            # It imports a good deal only when it is made, and connects only when it sends.
            own_provider.otlp_exporter(target).shutdown()


def parent_context(fallback: Context | None = None) -> Context:
    """Return the current context; the fallback if there is one and the current one is in no trace."""
    current = get_current()
    if fallback is None or trace.get_current_span(current).get_span_context().is_valid:
        return current
    return fallback


def current_run_id() -> str | None:
    """Return the run that this process belongs to, as the settings know it, or else the resource of the host's SDK."""
    if (known := SETTINGS.run_id) is not None:
        return known
    attributes = getattr(getattr(_host_provider(), "resource", None), "attributes", None)
    found = text(attributes, names.NEMO_RUN_ID) if isinstance(attributes, Mapping) else None
    return inputs.text(found, "the run id of the process's own telemetry", FAULTS.note)


def _host_provider() -> TracerProvider | None:
    """Return the global provider if it is an SDK's; those of the bare API lead nowhere."""
    provider = trace.get_tracer_provider()
    return provider if hasattr(provider, "add_span_processor") else None


def _record(finished: FinishedSpan, tracer: Tracer, context: Context) -> None:
    span = tracer.start_span(
        finished.name,
        context=context,
        kind=SpanKind.INTERNAL,
        attributes=finished.attributes,
        start_time=finished.start_ns,
    )
    if finished.error_type is not None:
        span.set_status(Status(StatusCode.ERROR, finished.error_type))
        span.add_event(EXCEPTION_EVENT, {EXCEPTION_TYPE: finished.error_type}, timestamp=finished.end_ns)
    span.end(end_time=finished.end_ns)


def _new_provider(endpoint: str | None, run_id: str | None) -> "OwnProvider | None":
    if SETTINGS.is_sdk_disabled:
        return None
    notes: tuple[str, ...] = ()
    try:
        # Late, so that a process whose telemetry is off, or that has a provider, never loads them.
        from sandgauge_emitter import own_provider  # noqa: PLC0415

        environment = SETTINGS.environment
        if SETTINGS.exporter is Exporter.CONSOLE:
            exporter = own_provider.console_exporter()
        else:
            target = otlp.resolve(environment, endpoint, own_provider.is_installed)
            exporter, notes = own_provider.otlp_exporter(target), target.notes
        provider = own_provider.OwnProvider(exporter, service_name=environment.get("OTEL_SERVICE_NAME"), run_id=run_id)
    except ImportError:
        warn("Sandbox telemetry is off: the OTLP exporter cannot be imported; pip install 'sandgauge[export]'")
        return None
    except otlp.UnusableEndpointError as error:
        warn(f"Sandbox telemetry is off: {error}; write it as http://collector.example:4318")
        return None
    except Exception as error:  # noqa: BLE001  # an SDK refuses a broken variable in ways of its own
        warn(f"Sandbox telemetry is off: {describe(error)}; look at the OTEL_ variables of this process")
        return None
    if notes:
        warn(f"Sandbox telemetry: {'; '.join(notes)}")
    return provider
