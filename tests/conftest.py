"""What the whole suite shares: receivers of telemetry that hold every record to the contract."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from support.otlp_sink import OtlpSink

MakeSink = Callable[..., OtlpSink]


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
