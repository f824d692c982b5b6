"""The SDK of a host that has one."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

RESOURCE = {"service.name": "nemo-gym/swe_agent", "nemo.gym.server.name": "swe_agent", "nemo.run.id": "run-1"}


def set_up() -> None:
    """Make the global tracer provider one that exports over OTLP/HTTP; what is left is sent as the process ends."""
    provider = TracerProvider(resource=Resource.create(RESOURCE))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
