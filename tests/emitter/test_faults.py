import logging
import random
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor

import sandgauge_emitter
from sandgauge_emitter import inputs, spans, tracing
from sandgauge_emitter.faults import FAULTS, LOGGER, FaultLog


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_one_warning_a_minute_with_the_number_since(caplog):
    clock = Clock()
    log = FaultLog(clock)
    for second in range(150):
        clock.now = 1000.0 + second
        log.note("record_request: OSError")
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["1)", "60)", "60)"]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_many_threads_at_once_make_one_warning(caplog):
    log = FaultLog(Clock())
    threads = [threading.Thread(target=log.note, args=("fault",)) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caplog.records) == 1


def test_a_guard_swallows_errors_and_prints_no_message(caplog):
    with FaultLog().guard("record_request"):
        raise RuntimeError("pa55")
    assert "record_request: RuntimeError at test_faults.py:" in caplog.text
    assert "pa55" not in caplog.text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_guard_lets_the_end_of_the_program_through(stop):
    with pytest.raises(stop), FaultLog().guard("record_request"):
        raise stop


def use_everything():
    """Call all there is to call, as a framework would."""
    sandgauge_emitter.configure(enabled=True)
    request = sandgauge_emitter.record_request(
        provider="opensandbox", resources={"cpu": 1}, sidecars=[("s", {"cpu": 1})], rollout_id="1-1"
    )
    assert request.request_id
    request.started("sbx-1", submitted_limits={"cpu": 1}, scope="http://c:8080")
    request.failed("timeout")


class Broken:
    """A telemetry layer whose `depth`-th call fails, for whatever is called."""

    def __init__(self, fails_at):
        self.fails_at = fails_at
        self.calls = 0

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*_args, **_kwargs):
            self.calls += 1
            if self.calls >= self.fails_at:
                raise RuntimeError("pa55")
            return self

        return call


def test_a_telemetry_layer_that_fails_at_any_call_never_reaches_the_caller(monkeypatch, caplog):
    whole = Broken(10**6)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", whole)
    use_everything()
    assert whole.calls > 5
    for fails_at in range(1, whole.calls + 1):
        broken = Broken(fails_at)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", broken)
        FAULTS.__init__()
        caplog.clear()
        use_everything()
        assert broken.calls >= fails_at
        assert len(caplog.records) == 1
        assert "pa55" not in caplog.text


PARTS = [
    *[(inputs, name) for name in ("text", "required_text", "number", "count", "requested", "submitted", "sidecars")],
    (inputs, "flag"),
    (inputs, "error_type"),
    *[(tracing, name) for name in ("parent_context", "current_run_id", "get_current", "_host_provider")],
    *[(spans, name) for name in ("emit_request", "emit_start", "FinishedSpan")],
    *[(tracing.Tracing, name) for name in ("emit", "_tracer_of")],
]


@pytest.mark.parametrize("part", PARTS, ids=[name for _, name in PARTS])
@pytest.mark.parametrize("error", [RuntimeError, ImportError, RecursionError, MemoryError])
def test_a_fault_in_any_part_of_the_emitter_never_reaches_the_caller(host, monkeypatch, caplog, part, error):
    def fail(*_args, **_kwargs):
        raise error("pa55")

    monkeypatch.setattr(*part, fail)
    use_everything()
    assert error.__name__ in caplog.text
    assert "pa55" not in caplog.text


def test_a_host_whose_span_processor_raises(host):
    class Raising(SpanProcessor):
        def on_end(self, span):
            raise RuntimeError("pa55")

    host.provider.add_span_processor(Raising())
    use_everything()
    assert len(host.spans()) == 3


def test_a_host_whose_log_handler_raises_loses_no_span(host, monkeypatch):
    class Raising(logging.Handler):
        def emit(self, record):
            raise RuntimeError("pa55")

    handler = Raising()
    LOGGER.addHandler(handler)
    monkeypatch.setattr(LOGGER, "propagate", False)
    try:
        sandgauge_emitter.configure(enabled=True)
        sandgauge_emitter.record_request(provider="p", resources={"cpu": -1}).started("sbx-1")
    finally:
        LOGGER.removeHandler(handler)
    assert len(host.spans()) == 2


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.just(object()),
    st.sampled_from([10**400, "\ud800", float("nan"), -0.0, [], {"cpu": object()}, ("a",)]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(values=st.lists(ANYTHING, min_size=15, max_size=15))
def test_whatever_is_handed_over_nothing_is_raised_and_the_contract_holds(make_host, values):
    host = make_host()
    sandgauge_emitter.configure(enabled=True)
    provider, resources, count, run, rollout, sidecars, collection, service, interval, *start = values
    request = sandgauge_emitter.record_request(
        provider=provider,
        resources=resources,
        count=count,
        run_id=run,
        rollout_id=rollout,
        sidecars=sidecars,
        collection_id=collection,
        service_name=service,
        sample_interval_s=interval,
    )
    sandbox_id, requests, limits, sdk_default, scope, error_type = start
    request.started(
        sandbox_id, submitted_requests=requests, submitted_limits=limits, sdk_default=sdk_default, scope=scope
    )
    request.failed(error_type)
    host.spans()


def test_the_program_gets_the_same_random_numbers_with_and_without_telemetry(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    random.seed(7)
    expected = [random.random() for _ in range(3)]
    random.seed(7)
    found = []
    for _ in range(3):
        use_everything()
        found.append(random.random())
    assert found == expected
