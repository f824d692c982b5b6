"""What the whole suite shares: receivers of telemetry that hold every record to the contract."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_poller.export import series, spans
from sandgauge_poller.export.messages import export_request
from support.conformance import assert_conforms
from support.otlp_sink import OtlpSink

pytest_plugins = ["support.side_by_side"]

MakeSink = Callable[..., OtlpSink]


# A first example may have to load the registry, on a machine that is busy with others. Where every real part must be
# there, what fails is to be a fault of the change and not of the day's examples; elsewhere they are new each time.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("SANDGAUGE_REQUIRE_REAL_PARTS") == "1",
)
settings.load_profile("unhurried")

# What the shell of whoever runs the tests says of its terminal is not what they expect of one.
for variable in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(variable, None)
os.environ["TERM"] = "xterm"


@pytest.fixture
def make_otlp_sink() -> Iterator[MakeSink]:
    """Make receivers; when the test is over, fail it for whatever they got that breaks the telemetry contract."""
    sinks: list[OtlpSink] = []
    with ExitStack() as stack:

        def make(port: int = 0) -> OtlpSink:
            sink = stack.enter_context(OtlpSink(port))
            sinks.append(sink)
            return sink

        yield make
    violations = [violation for sink in sinks for violation in sink.violations]
    assert not violations, "\n".join(violations)


@pytest.fixture
def otlp_sink(make_otlp_sink: MakeSink) -> OtlpSink:
    """One receiver of both signals."""
    return make_otlp_sink()


@pytest.fixture(autouse=True)
def every_record_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold each span and each point that the poller makes in this process to the telemetry contract."""

    def checked(encode: Callable[..., bytes], request_type: Any) -> Callable[..., bytes]:
        def encode_and_check(*arguments: Any, **named: Any) -> bytes:
            payload = encode(*arguments, **named)
            assert_conforms(request_type.FromString(export_request([payload])))
            return payload

        return encode_and_check

    monkeypatch.setattr(spans, "encode_span", checked(spans.encode_span, ExportTraceServiceRequest))
    monkeypatch.setattr(series, "encode_points", checked(series.encode_points, ExportMetricsServiceRequest))
