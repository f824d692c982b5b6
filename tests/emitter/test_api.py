import logging
import threading
import time
from dataclasses import dataclass

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits

import sandgauge_emitter
from sandgauge_emitter import api
from sandgauge_emitter import spans as emission
from sandgauge_schemas import names
from sandgauge_schemas.records import RequestRecord, Sidecar, StartRecord
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources

REQUEST, START = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START


@pytest.fixture
def on(host):
    sandgauge_emitter.configure(enabled=True)
    return host


def only(spans):
    (span,) = spans
    return span


def resource_keys(span, prefix):
    return {key.removeprefix(f"{prefix}."): value for key, value in span.attributes.items() if key.startswith(prefix)}


def requested(span):
    keys = resource_keys(span, names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED)
    assert keys.pop("count") == 1
    return keys


def test_a_request_is_there_before_anything_else_happens(on):
    request = sandgauge_emitter.record_request(provider="opensandbox", rollout_id="3-1", run_id="run-7")
    span = only(on.spans())
    assert (span.name, span.scope) == (REQUEST, "sandgauge_emitter")
    assert span.start_ns == span.end_ns
    assert span.attributes == {
        names.NEMO_RUN_ID: "run-7",
        names.NEMO_GYM_ROLLOUT_ID: "3-1",
        names.NEMO_GYM_SANDBOX_REQUEST_ID: request.request_id,
        names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox",
        names.NEMO_GYM_SANDBOX_REQUESTED_COUNT: 1,
    }


def test_a_start_joins_request_and_sandbox(on):
    request = sandgauge_emitter.record_request(
        provider="opensandbox", rollout_id="3-1", run_id="run-7", sample_interval_s=5
    )
    request.started(
        "sbx-1",
        submitted_requests={"cpu": 1},
        submitted_limits=SandboxResources(cpu=2, memory_mib=512, disk_gib=10, gpu=1, gpu_type="h100"),
        sdk_default=False,
        scope="http://user:pa55@osb.example:8080/v1?key=pa55",
    )
    recorded, started = only(on.spans(REQUEST)), only(on.spans(START))
    assert recorded.end_ns <= started.end_ns
    assert started.start_ns == recorded.start_ns
    assert not started.is_error
    assert started.attributes == {
        names.NEMO_RUN_ID: "run-7",
        names.NEMO_GYM_ROLLOUT_ID: "3-1",
        names.NEMO_GYM_SANDBOX_REQUEST_ID: request.request_id,
        names.NEMO_GYM_SANDBOX_PROVIDER: "opensandbox",
        names.NEMO_GYM_SANDBOX_ID: "sbx-1",
        names.NEMO_GYM_SANDBOX_SCOPE: "http://osb.example:8080/v1",
        names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: 5.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_CPU: 1.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU: 2.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_MEMORY_MIB: 512.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_DISK_GIB: 10.0,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_GPU: 1,
        names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_GPU_TYPE: "h100",
        names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT: False,
    }


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (None, {}),
        ({}, {}),
        (SandboxResources(), {}),
        (SandboxResources(disk_gib=10), {"disk_gib": 10}),
        (SandboxResourceAmounts(cpu=0.0), {"cpu": 0.0}),
        ({"cpu": 0, "memory_mib": None, "gpu": 0, "gpu_type": ""}, {"cpu": 0.0, "gpu": 0}),
        ({"cpu": 0.5, "memory_mib": 512.0, "disk_gib": 1}, {"cpu": 0.5, "memory_mib": 512, "disk_gib": 1}),
    ],
)
def test_what_is_not_declared_is_absent_and_a_declared_zero_is_zero(on, caplog, resources, expected):
    sandgauge_emitter.record_request(provider="docker", resources=resources)
    found = requested(only(on.spans()))
    assert found == expected
    assert {key: type(value) for key, value in found.items()} == {key: type(value) for key, value in expected.items()}
    assert not caplog.records


@pytest.mark.parametrize(
    "resources",
    [
        {"memory_mib": 512.5},
        {"cpu": float("nan")},
        {"cpu": float("inf")},
        {"cpu": -1},
        {"cpu": "2"},
        {"cpu": True},
        {"gpu": 0.5},
        {"gpu": 10**400},
        {"disk_gib": 2**63},
        {"gpu_type": "\ud800"},
        {"gpu_type": "x" * 2000},
        {"memory": "pa55"},
        "pa55",
    ],
)
def test_a_value_that_cannot_be_true_is_left_out_and_said_without_quoting_it(on, caplog, resources):
    sandgauge_emitter.record_request(provider="docker", resources=resources)
    assert requested(only(on.spans())) == {}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "resources" in record.getMessage()
    assert "pa55" not in record.getMessage()


def test_nothing_submitted_is_nothing_submitted(on):
    sandgauge_emitter.record_request(provider="opensandbox").started("sbx-1", sdk_default=True)
    submitted = resource_keys(only(on.spans(START)), "nemo.gym.sandbox.submitted")
    assert submitted == {"sdk_default": True}


def test_sidecars_stand_beside_the_main_shape(on):
    sandgauge_emitter.record_request(
        provider="kubernetes",
        resources={"cpu": 4},
        sidecars=[
            ("egress", {"cpu": 0.1, "memory_mib": 64}),
            Sidecar(name="cache", resources=SandboxResources(gpu=1)),
            ("bare", None),
        ],
    )
    assert requested(only(on.spans())) == {
        "cpu": 4.0,
        "sidecar_count": 3,
        "sidecar.0.name": "egress",
        "sidecar.0.cpu": 0.1,
        "sidecar.0.memory_mib": 64,
        "sidecar.1.name": "cache",
        "sidecar.1.gpu": 1,
        "sidecar.2.name": "bare",
    }


def test_more_sidecars_than_a_reader_takes_are_cut(on, caplog):
    sandgauge_emitter.record_request(provider="kubernetes", sidecars=[("s", None)] * 300)
    (span,) = on.finished()
    assert span.attributes[names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT] == 256
    assert "only the first 256 sidecars" in caplog.text


def test_a_host_that_keeps_few_attributes_keeps_the_join_keys(make_host):
    host = make_host()
    host.provider._span_limits = SpanLimits(max_span_attributes=16)
    sandgauge_emitter.configure(enabled=True)
    request = sandgauge_emitter.record_request(
        provider="kubernetes", run_id="r", rollout_id="1-1", resources={"cpu": 1}, sidecars=[("s", {"cpu": 1})] * 50
    )
    read = RequestRecord.from_attributes(only(host.spans()).attributes)
    assert read.keys.request_id == request.request_id
    assert (read.keys.run_id, read.keys.rollout_id, read.keys.provider) == ("r", "1-1", "kubernetes")
    assert read.requested == SandboxResources(cpu=1.0)


@pytest.mark.parametrize("provider", [None, "", "\ud800"])
def test_without_a_provider_nothing_is_recorded(on, caplog, provider):
    sandgauge_emitter.record_request(provider=provider).started("sbx-1")
    assert not on.spans()
    assert "provider" in caplog.text


def test_a_collection_names_its_services(on):
    sandgauge_emitter.record_request(provider="opensandbox", collection_id="project-1", service_name="database")
    attributes = only(on.spans()).attributes
    assert attributes[names.NEMO_GYM_SANDBOX_COLLECTION_ID] == "project-1"
    assert attributes[names.NEMO_GYM_SANDBOX_SERVICE_NAME] == "database"


def test_a_failure_has_a_type_and_no_sandbox(on):
    sandgauge_emitter.record_request(provider="opensandbox").failed("SandboxCreateError")
    assert StartRecord.from_attributes(only(on.spans(START)).attributes).keys.sandbox_id is None
    span = on.finished()[-1]
    assert span.status.description == "SandboxCreateError"
    assert not span.status.is_ok
    (event,) = span.events
    assert (event.name, dict(event.attributes)) == ("exception", {"exception.type": "SandboxCreateError"})


@pytest.mark.parametrize("given", ["no image: registry.example/pa55", "", "x" * 200, None, ValueError("pa55")])
def test_what_looks_like_a_message_is_no_error_type(on, given):
    sandgauge_emitter.record_request(provider="opensandbox").failed(given)
    assert on.finished()[-1].status.description == "_OTHER"
    assert "pa55" not in on.finished()[-1].to_json()


def test_a_request_for_several_has_a_start_for_each_and_more_are_recorded_too(on, caplog):
    request = sandgauge_emitter.record_request(provider="opensandbox", count=2)
    with caplog.at_level(logging.DEBUG, "sandgauge_emitter"):
        request.failed("timeout")
        for index in range(4):
            request.started(f"sbx-{index}")
    assert only(on.spans(REQUEST)).attributes[names.NEMO_GYM_SANDBOX_REQUESTED_COUNT] == 2
    started = [span.attributes.get(names.NEMO_GYM_SANDBOX_ID) for span in on.spans(START)]
    assert started == [None, "sbx-0", "sbx-1", "sbx-2", "sbx-3"]
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", None, True])
def test_a_count_that_is_none_is_said_and_taken_as_one(on, caplog, count):
    sandgauge_emitter.record_request(provider="opensandbox", count=count)
    assert only(on.spans()).attributes[names.NEMO_GYM_SANDBOX_REQUESTED_COUNT] == 1
    assert "count" in caplog.text


@pytest.mark.parametrize("sandbox_id", [None, "", "\ud800"])
def test_a_start_without_an_id_is_not_recorded_for_it_would_say_not_created(on, caplog, sandbox_id):
    sandgauge_emitter.record_request(provider="opensandbox").started(sandbox_id)
    assert not on.spans(START)
    assert "sandbox_id" in caplog.text


def test_ids_of_other_types_are_taken_as_text(on):
    sandgauge_emitter.record_request(provider="opensandbox", rollout_id=17).started(1234)
    attributes = only(on.spans(START)).attributes
    assert attributes[names.NEMO_GYM_ROLLOUT_ID] == "17"
    assert attributes[names.NEMO_GYM_SANDBOX_ID] == "1234"


@pytest.mark.parametrize("interval", [-1, float("nan"), "10s"])
def test_an_interval_that_is_none_is_absent(on, caplog, interval):
    sandgauge_emitter.record_request(provider="opensandbox", sample_interval_s=interval).started("sbx-1")
    assert names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S not in only(on.spans(START)).attributes
    assert "sample_interval_s" in caplog.text


def test_an_interval_of_nothing_is_a_wish(on):
    sandgauge_emitter.record_request(provider="opensandbox", sample_interval_s=0).started("sbx-1")
    assert only(on.spans(START)).attributes[names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S] == 0.0


def test_a_scope_that_is_no_url_is_left_out(on, caplog):
    sandgauge_emitter.record_request(provider="opensandbox").started("sbx-1", scope="user:pa55@osb.example")
    assert names.NEMO_GYM_SANDBOX_SCOPE not in only(on.spans(START)).attributes
    assert "scope is not a URL" in caplog.text
    assert "pa55" not in caplog.text


def test_a_clock_that_is_set_back_gives_no_negative_time(on, monkeypatch):
    @dataclass
    class Clock:
        now_ns: int

        def time_ns(self):
            return self.now_ns

    clock = Clock(time.time_ns())
    for module in (api, emission):
        monkeypatch.setattr(module, "time", clock)
    request = sandgauge_emitter.record_request(provider="opensandbox")
    clock.now_ns -= 10**9
    request.started("sbx-1")
    started = only(on.spans(START))
    assert started.start_ns == started.end_ns


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


def test_a_host_that_is_replaced_gets_no_more_spans(make_host):
    sandgauge_emitter.configure(enabled=True)
    hosts = [make_host() for _ in range(2)]
    for _ in range(2):
        sandgauge_emitter.record_request(provider="p")
    first = make_host()
    sandgauge_emitter.record_request(provider="p")
    assert [len(host.spans()) for host in (*hosts, first)] == [0, 2, 1]


@pytest.mark.parametrize(
    ("variable", "said", "is_on"),
    [
        (None, None, False),
        ("", None, False),
        ("0", None, False),
        ("off", None, False),
        ("false", None, False),
        ("1", None, True),
        (" TRUE ", None, True),
        ("Yes", None, True),
        ("on", None, True),
        ("1", False, False),
        ("0", True, True),
        (None, True, True),
        (None, "yes", False),
    ],
)
def test_the_switch(host, monkeypatch, variable, said, is_on):
    if variable is not None:
        monkeypatch.setenv("SANDGAUGE_ENABLED", variable)
    sandgauge_emitter.configure(enabled=said)
    sandgauge_emitter.record_request(provider="p").started("sbx-1")
    assert len(host.spans()) == (2 if is_on else 0)


def test_a_switch_that_is_neither_is_off_and_said_so(host, monkeypatch, caplog):
    monkeypatch.setenv("SANDGAUGE_ENABLED", "perhaps")
    sandgauge_emitter.record_request(provider="p")
    assert not host.spans()
    assert "SANDGAUGE_ENABLED" in caplog.text


def test_while_it_is_off_there_are_real_ids_and_nothing_else(host):
    first, second = (sandgauge_emitter.record_request(provider="p") for _ in range(2))
    assert len({first.request_id, second.request_id}) == 2
    sandgauge_emitter.configure(enabled=True)
    first.started("sbx-1")
    first.failed("timeout")
    assert not host.spans()


def test_off_is_off_for_open_requests_too(on):
    request = sandgauge_emitter.record_request(provider="p")
    sandgauge_emitter.configure(enabled=False)
    request.started("sbx-1")
    assert [span.name for span in on.spans()] == [REQUEST]


def test_configure_leaves_what_it_is_not_told(on):
    sandgauge_emitter.configure(run_id="run-7")
    sandgauge_emitter.configure()
    sandgauge_emitter.record_request(provider="p")
    assert run_ids(on) == ["run-7"]


def test_threads_share_one_request(on):
    request = sandgauge_emitter.record_request(provider="p", count=200)

    def start(first):
        for index in range(first, first + 20):
            request.started(f"sbx-{index}")

    threads = [threading.Thread(target=start, args=(first,)) for first in range(0, 200, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in on.spans(START)} == {f"sbx-{i}" for i in range(200)}


def test_a_request_shows_its_id_alone(on):
    request = sandgauge_emitter.record_request(provider="pa55")
    assert repr(request) == f"SandboxRequest(request_id={request.request_id!r})"
