"""Whose spans they are: the trace, the run and the tracer provider that the neutral API finds around it."""

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource

import sandgauge_emitter
from sandgauge_schemas import names
from support.emitted import only

REQUEST = names.SPAN_GYM_SANDBOX_REQUEST


def test_spans_land_in_the_trace_of_their_rollout(on):
    with on.tracer.start_as_current_span("rollout") as rollout:
        request = sandgauge_emitter.record_request(provider="opensandbox")
        request.started("sbx-1")
    # A callback of the provider that lost its context.
    request.started("sbx-2")
    with on.tracer.start_as_current_span("another") as another:
        request.started("sbx-3")
    parents = {span.attributes.get(names.NEMO_GYM_SANDBOX_ID): span.parent_span_id for span in on.spans()}
    rollout_id, another_id = (f"{span.get_span_context().span_id:016x}" for span in (rollout, another))
    assert {key: parents[key] for key in ("sbx-1", "sbx-2", "sbx-3")} == {
        "sbx-1": rollout_id,
        "sbx-2": rollout_id,
        "sbx-3": another_id,
    }
    assert only(on.spans(REQUEST)).parent_span_id == rollout_id


def test_the_parent_and_the_current_span_are_left_alone(on):
    with on.tracer.start_as_current_span("rollout") as rollout:
        sandgauge_emitter.record_request(provider="opensandbox").failed("timeout")
        assert trace.get_current_span() is rollout
    assert on.finished()[-1].status.is_unset
    assert not on.finished()[-1].events


def test_outside_any_trace_a_start_has_no_parent(on):
    sandgauge_emitter.record_request(provider="opensandbox").started("sbx-1")
    assert [span.parent_span_id for span in on.spans()] == ["", ""]


def run_ids(host):
    return [span.attributes.get(names.NEMO_RUN_ID) for span in host.spans()]


def test_the_run_is_known_from_the_nearest_that_names_it(make_host, monkeypatch):
    host = make_host(Resource({names.NEMO_RUN_ID: "host"}))
    sandgauge_emitter.configure(enabled=True)
    sandgauge_emitter.record_request(provider="p")
    monkeypatch.setenv("NEMO_GYM_OTEL_RUN_ID", "environment")
    sandgauge_emitter.record_request(provider="p")
    sandgauge_emitter.configure(run_id="configured")
    sandgauge_emitter.record_request(provider="p")
    sandgauge_emitter.record_request(provider="p", run_id="given")
    assert run_ids(host) == ["host", "environment", "configured", "given"]


def test_an_unknown_run_is_absent(on, monkeypatch):
    monkeypatch.setenv("NEMO_GYM_OTEL_RUN_ID", "")
    sandgauge_emitter.record_request(provider="p")
    assert run_ids(on) == [None]


def test_configure_leaves_what_it_is_not_told(on):
    sandgauge_emitter.configure(run_id="run-7")
    sandgauge_emitter.configure()
    sandgauge_emitter.record_request(provider="p")
    assert run_ids(on) == ["run-7"]


def test_a_host_that_is_replaced_gets_no_more_spans(make_host):
    sandgauge_emitter.configure(enabled=True)
    hosts = [make_host() for _ in range(2)]
    for _ in range(2):
        sandgauge_emitter.record_request(provider="p")
    first = make_host()
    sandgauge_emitter.record_request(provider="p")
    assert [len(host.spans()) for host in (*hosts, first)] == [0, 2, 1]
