import random
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

import sandgauge_emitter
from sandgauge_emitter import own_provider, tracing
from sandgauge_emitter.finished_span import FinishedSpan
from sandgauge_schemas import names
from sandgauge_schemas.records import JoinKeys, StartRecord, Submission
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.otlp_proto import spans_of
from support.waiting import wait_until

REQUEST, START = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START


@pytest.fixture
def on(otlp_sink):
    sandgauge_emitter.configure(enabled=True, endpoint=otlp_sink.endpoint)
    return otlp_sink


def arrived(sink, number):
    sink.wait_for(lambda seen: len(seen.spans()) >= number)
    spans = sink.spans()
    assert len(spans) == number
    return spans


def test_spans_of_a_process_without_an_sdk_arrive_and_the_global_provider_stays(on):
    before = trace.get_tracer_provider()
    request = sandgauge_emitter.record_request(provider="opensandbox", resources={"cpu": 0.0}, rollout_id="1-1")
    request.started("sbx-1", submitted_limits={"memory_mib": 0.5})
    request.failed("timeout")
    spans = arrived(on, 3)
    assert [span.name for span in spans] == [REQUEST, START, START]
    assert spans[0].attributes[names.NEMO_GYM_SANDBOX_REQUESTED_CPU] == 0.0
    assert {span.attributes[names.NEMO_GYM_SANDBOX_REQUEST_ID] for span in spans} == {request.request_id}
    assert [span.is_error for span in spans] == [False, False, True]
    assert {span.scope for span in spans} == {"sandgauge_emitter"}
    assert trace.get_tracer_provider() is before


@pytest.mark.load  # for the clock that it looks at
def test_spans_arrive_within_a_second(on):
    for count in range(1, 4):  # a busy machine makes some longer and none shorter
        sandgauge_emitter.record_request(provider="p")
        arrived(on, count)
    took_ns = [request.time_ns - span.end_ns for request in on.requests() for span in spans_of(request.message)]
    assert len(took_ns) == 3
    assert min(took_ns) < 10**9


@pytest.mark.parametrize(
    ("environment", "service"),
    [
        ({}, "sandgauge-emitter"),
        ({"OTEL_SERVICE_NAME": "trainer"}, "trainer"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=trainer,team=rl"}, "trainer"),
    ],
)
def test_the_resource_says_whose_process_it_is(on, monkeypatch, environment, service):
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    sandgauge_emitter.record_request(provider="p")
    (span,) = arrived(on, 1)
    assert span.resource[names.SERVICE_NAME] == service
    assert names.NEMO_RUN_ID not in span.resource


@pytest.mark.parametrize("written", ["run-\udcff", "r" * 2000])
def test_a_run_id_that_no_span_can_hold_is_left_out_and_said_once(on, monkeypatch, caplog, capfd, written):
    monkeypatch.setenv("NEMO_GYM_OTEL_RUN_ID", written)
    for _ in range(3):
        sandgauge_emitter.record_request(provider="p").started("sbx-1")
    for span in arrived(on, 6):
        assert names.NEMO_RUN_ID not in span.attributes
        assert names.NEMO_RUN_ID not in span.resource
    (record,) = caplog.records
    assert "NEMO_GYM_OTEL_RUN_ID" in record.getMessage()
    assert "Traceback" not in caplog.text + capfd.readouterr().err


@pytest.mark.parametrize(
    ("variable", "written"),
    [
        ("OTEL_SERVICE_NAME", "\udcff"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=\udcff,region=a"),
        ("OTEL_RESOURCE_ATTRIBUTES", "\udcff=team,region=a"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=\udcff"),
    ],
)
def test_what_is_no_text_in_the_environment_costs_itself_alone(on, monkeypatch, caplog, variable, written):
    monkeypatch.setenv(variable, written)
    sandgauge_emitter.record_request(provider="p")
    (span,) = arrived(on, 1)
    assert span.resource[names.SERVICE_NAME] == "sandgauge-emitter"
    assert "team" not in str(span.resource)
    assert ("region" in span.resource) == ("region" in written)
    (record,) = caplog.records
    assert variable in record.getMessage()


def test_a_new_run_has_a_resource_of_its_own_and_loses_nothing_of_the_old(on):
    for run in ("run-1", "run-2"):
        sandgauge_emitter.configure(run_id=run)
        sandgauge_emitter.record_request(provider="p")
    spans = arrived(on, 2)
    assert {span.attributes[names.NEMO_RUN_ID] for span in spans} == {"run-1", "run-2"}
    assert all(span.attributes[names.NEMO_RUN_ID] == span.resource[names.NEMO_RUN_ID] for span in spans)


def test_a_process_of_many_runs_keeps_no_provider_of_old_ones(on):
    for number in range(5):
        sandgauge_emitter.configure(run_id=f"run-{number}")
        sandgauge_emitter.record_request(provider="p")
        wait_until(
            lambda: all(one.is_closed for one in tracing.TRACING._replaced), timeout_s=60, what="end of old runs"
        )
    assert len(tracing.TRACING._replaced) <= 1
    assert len(on.spans()) >= 4


def test_the_end_waits_for_a_run_that_was_replaced(monkeypatch):
    class Slow(InMemorySpanExporter):
        def export(self, spans):
            assert answered.wait(60)
            return super().export(spans)

    answered = threading.Event()
    exporters = [Slow(), InMemorySpanExporter()]
    monkeypatch.setattr(own_provider, "otlp_exporter", lambda _target: waiting.pop(0))
    waiting = list(exporters)
    for run in ("run-1", "run-2"):
        sandgauge_emitter.configure(enabled=True, run_id=run)
        sandgauge_emitter.record_request(provider="p")
    threading.Timer(0.2, answered.set).start()
    tracing.TRACING.close()
    assert [len(exporter.get_finished_spans()) for exporter in exporters] == [1, 1]


def test_a_trace_that_the_host_samples_away_still_has_its_sandboxes(on):
    unsampled = SpanContext(trace_id=0xABC, span_id=0xDEF, is_remote=True, trace_flags=TraceFlags(0))
    with trace.use_span(NonRecordingSpan(unsampled)):
        sandgauge_emitter.record_request(provider="p").started("sbx-1")
    for span in arrived(on, 2):
        assert (int(span.trace_id, 16), int(span.parent_span_id, 16)) == (0xABC, 0xDEF)


def test_workers_that_seed_alike_have_ids_of_their_own(on):
    for _ in range(3):
        random.seed(0)
        sandgauge_emitter.record_request(provider="p")
    spans = arrived(on, 3)
    assert len({span.trace_id for span in spans}) == len({span.span_id for span in spans}) == 3


def test_many_attributes_and_a_hosts_limits_on_its_own_spans_cost_no_key(on, monkeypatch):
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "4")
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3")
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "none that the SDK takes")
    sidecars = [(f"sidecar-{index}", {"cpu": 1}) for index in range(200)]
    request = sandgauge_emitter.record_request(provider="kubernetes", sidecars=sidecars)
    (span,) = arrived(on, 1)
    assert span.attributes[names.NEMO_GYM_SANDBOX_REQUEST_ID] == request.request_id
    assert span.attributes[names.requested_sidecar_name(199)] == "sidecar-199"


def test_a_burst_is_not_lost(on):
    for _ in range(4000):
        sandgauge_emitter.record_request(provider="p")
    on.wait_for(lambda seen: len(seen.spans()) == 4000)


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/v1/traces"])
@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_forms_of_the_endpoint_lead_to_the_same_place(otlp_sink, monkeypatch, form, variable):
    monkeypatch.setenv("SANDGAUGE_ENABLED", "1")
    monkeypatch.setenv(variable, form.format(otlp_sink.endpoint))
    sandgauge_emitter.record_request(provider="p")
    arrived(otlp_sink, 1)


def test_an_endpoint_without_a_scheme_is_called_and_said_once(otlp_sink, monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"127.0.0.1:{otlp_sink.port}")
    sandgauge_emitter.configure(enabled=True)
    sandgauge_emitter.record_request(provider="p").started("sbx-1")
    arrived(otlp_sink, 2)
    (record,) = caplog.records
    assert "OTEL_EXPORTER_OTLP_ENDPOINT has no scheme" in record.getMessage()


def test_the_port_of_grpc_is_taken_as_that_of_http_where_only_http_is_there(monkeypatch, caplog):
    monkeypatch.setattr(tracing.otlp, "resolve", recorded := Recorder(tracing.otlp.resolve))
    sandgauge_emitter.configure(enabled=True, endpoint="http://localhost:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    sandgauge_emitter.record_request(provider="p").started("sbx-1")
    (target,) = recorded.results
    assert target.endpoint == "http://localhost:4318/v1/traces"
    assert [record.name for record in caplog.records].count("sandgauge_emitter") == 1


class Recorder:
    def __init__(self, call):
        self.call = call
        self.arguments = []
        self.results = []

    def __call__(self, *arguments, **named):
        self.arguments.append(named)
        self.results.append(self.call(*arguments, **named))
        return self.results[-1]


def test_headers_are_sent_as_meant(on, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic dXNlcjpwYXNz==, x-a = b%3D,x-quote=a;b")
    sandgauge_emitter.record_request(provider="p")
    arrived(on, 1)
    headers = {key.lower(): value for key, value in on.requests()[0].headers.items()}
    assert headers["authorization"] == "Basic dXNlcjpwYXNz=="
    assert (headers["x-a"], headers["x-quote"]) == ("b=", "a;b")


def test_no_print_of_a_header_that_cannot_be_sent(on, monkeypatch, caplog):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", 'a=pa55%0Apa55,b="pa55\\,pa55;no value,x=1')
    sandgauge_emitter.record_request(provider="p")
    arrived(on, 1)
    assert "OTEL_EXPORTER_OTLP_HEADERS: entry 3" in caplog.text
    assert "pa55" not in caplog.text
    assert on.requests()[0].headers["x"] == "1"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:pa55@c:port", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://pa55", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER", "pa55", "OTEL_ variables"),
    ],
)
def test_a_set_up_that_fails_is_said_once_and_not_tried_again(monkeypatch, caplog, variable, value, said):
    monkeypatch.setenv(variable, value)
    sandgauge_emitter.configure(enabled=True)
    for _ in range(3):
        sandgauge_emitter.record_request(provider="p").started("sbx-1")
    (record,) = caplog.records
    assert said in record.getMessage()
    assert "pa55" not in caplog.text


def test_a_process_that_gets_an_sdk_later_uses_it_from_then_on(on, make_host):
    request = sandgauge_emitter.record_request(provider="p")
    host = make_host()
    request.started("sbx-1")
    assert [span.name for span in arrived(on, 1)] == [REQUEST]
    assert [span.name for span in host.spans()] == [START]


def test_the_standard_switch_of_the_sdk_is_kept(on, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    sandgauge_emitter.record_request(provider="p").started("sbx-1")
    tracing.TRACING.close()
    assert not on.requests()


def test_a_grpc_exporter_is_given_what_it_takes(monkeypatch):
    name = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    exporter = InMemorySpanExporter()
    module.OTLPSpanExporter = Recorder(lambda **_: exporter)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20abc")
    sandgauge_emitter.configure(enabled=True, endpoint="https://c:4317/")
    sandgauge_emitter.record_request(provider="p")
    tracing.TRACING.close()
    assert module.OTLPSpanExporter.arguments == [
        {"endpoint": "https://c:4317", "headers": {"authorization": "Bearer abc"}, "timeout": 10.0}
    ]
    assert len(exporter.get_finished_spans()) == 1


def test_a_missing_exporter_is_one_warning_with_its_cure(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    sandgauge_emitter.configure(enabled=True)
    for _ in range(3):
        sandgauge_emitter.record_request(provider="p").started("sbx-1")
    (record,) = caplog.records
    assert "pip install 'sandgauge[export]'" in record.getMessage()


PARENT = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "b")]))


@pytest.mark.parametrize("error_type", [None, "timeout"])
@pytest.mark.parametrize("parent", [None, PARENT])
def test_a_span_is_as_an_sdks_tracer_makes_it(make_host, parent, error_type):
    submission = Submission(limits=SandboxResourceAmounts(cpu=0.5, gpu=1, gpu_type="H100"), sdk_default=False)
    record = StartRecord(keys=JoinKeys(request_id="a1", provider="p"), submission=submission)
    finished = FinishedSpan(name=START, attributes=record.to_attributes(), start_ns=1, end_ns=2, error_type=error_type)
    context = Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), Context())
    exporter = InMemorySpanExporter()
    own = own_provider.OwnProvider(exporter, service_name=None, run_id=None)
    own.send(finished, context)
    own.close(60)
    host = make_host()
    tracing.TRACING.emit(finished, context)
    (ours,), (theirs,) = (comparable(encode_spans(spans)) for spans in (exporter.get_finished_spans(), host.finished()))
    assert ours == theirs


def comparable(message):
    """Return the spans by their scope, without what is drawn by lot."""
    for scope_spans in message.resource_spans[0].scope_spans:
        for span in scope_spans.spans:
            assert span.trace_id.strip(b"\0")
            assert span.span_id.strip(b"\0")
            span.ClearField("span_id")
            if not span.parent_span_id:
                span.ClearField("trace_id")
    return list(message.resource_spans[0].scope_spans)
