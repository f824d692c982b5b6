"""A process as it is before anyone configured telemetry, and a host with an SDK of its own."""

import os

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import sandgauge_emitter
from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.settings import SETTINGS
from sandgauge_emitter.tracing import TRACING
from support.conformance import assert_conforms
from support.otlp_proto import SeenSpan, spans_of


class Host:
    """A process whose SDK keeps its spans in memory."""

    def __init__(self, resource: Resource | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(resource=resource or Resource({}), shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("host")

    def spans(self, name: str | None = None) -> list[SeenSpan]:
        return [span for span in spans_of(self.message()) if name in (None, span.name)]

    def finished(self):
        return self._exporter.get_finished_spans()

    def message(self):
        return encode_spans(self.finished())


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    """Nothing configured, nothing set up, no fault seen."""
    for variable in list(os.environ):
        if variable.startswith(("OTEL_", "NEMO_GYM_", "SANDGAUGE_")):
            monkeypatch.delenv(variable)
    yield
    TRACING.close()
    TRACING._begin()
    SETTINGS.forget()
    FAULTS.__init__()


@pytest.fixture
def make_host(monkeypatch):
    """Make the process a host; what it got must keep the telemetry contract."""
    hosts = []

    def make(resource: Resource | None = None) -> Host:
        host = Host(resource)
        hosts.append(host)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", host.provider)
        return host

    yield make
    for host in hosts:
        assert_conforms(host.message())
        host.provider.shutdown()


@pytest.fixture
def host(make_host):
    return make_host()


@pytest.fixture
def on(host):
    """The host, with the emitter switched on."""
    sandgauge_emitter.configure(enabled=True)
    return host
