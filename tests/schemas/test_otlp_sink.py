import gzip
import os
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.otlp_sink import Answer, OtlpSink

TESTS = Path(__file__).parents[1]
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def spans(*names: str) -> bytes:
    request = ExportTraceServiceRequest()
    scope_spans = request.resource_spans.add().scope_spans.add()
    note = AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="rounded"), AnyValue(int_value=1)]))
    for name in names:
        scope_spans.spans.append(
            Span(name=name, trace_id=b"\xab" * 16, span_id=b"\1" * 8, attributes=[KeyValue(key="note", value=note)])
        )
    return request.SerializeToString()


def points(*values: float | None) -> bytes:
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="queue", unit="By")
    for value in values:
        metric.gauge.data_points.add(time_unix_nano=5, as_double=value, flags=int(value is None))
    return request.SerializeToString()


def test_spans_and_points_are_kept_in_order_with_plain_values(otlp_sink: OtlpSink) -> None:
    with requests.Session() as client:
        client.post(f"{otlp_sink.endpoint}/v1/traces", spans("a", "b"), headers=PROTOBUF).raise_for_status()
        packed = gzip.compress(points(1.5, None))
        headers = PROTOBUF | {"Content-Encoding": "gzip"}
        client.post(f"{otlp_sink.endpoint}/v1/metrics", packed, headers=headers).raise_for_status()

    assert [span.name for span in otlp_sink.spans()] == ["a", "b"]
    [span] = otlp_sink.spans("a")
    assert (span.trace_id, span.span_id, span.parent_span_id) == ("ab" * 16, "01" * 8, "")
    assert span.attributes == {"note": ["rounded", 1]}
    assert [(point.name, point.unit, point.time_ns, point.value) for point in otlp_sink.points()] == [
        ("queue", "By", 5, 1.5),
        ("queue", "By", 5, None),
    ]
    first, second = otlp_sink.requests()
    assert (first.path, second.path) == ("/v1/traces", "/v1/metrics")
    assert first.time_ns <= second.time_ns
    assert first.body == spans("a", "b")


def test_scripted_answers_come_in_turn_and_refused_spans_do_not_count(otlp_sink: OtlpSink) -> None:
    otlp_sink.script(
        Answer(status=503, headers={"Retry-After": "7"}), Answer(body=b"<html>", headers={"Content-Type": "text/html"})
    )
    with requests.Session() as client:
        refused, odd, accepted = (
            client.post(f"{otlp_sink.endpoint}/v1/traces", spans(name), headers=PROTOBUF) for name in "abc"
        )
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "7")
    assert (odd.status_code, odd.headers["Content-Type"], odd.content) == (200, "text/html", b"<html>")
    assert (accepted.status_code, accepted.headers["Content-Type"]) == (200, "application/x-protobuf")
    assert [span.name for span in otlp_sink.spans()] == ["b", "c"]
    assert [one.status for one in otlp_sink.requests()] == [503, 200, 200]


def test_waiting_ends_with_the_request_that_fulfils_it(otlp_sink: OtlpSink) -> None:
    sender = threading.Thread(
        target=lambda: requests.post(f"{otlp_sink.endpoint}/v1/traces", spans("late"), headers=PROTOBUF, timeout=60)
    )
    sender.start()
    otlp_sink.wait_for(lambda sink: bool(sink.spans("late")))
    sender.join()


def test_waiting_in_vain_says_what_came(otlp_sink: OtlpSink) -> None:
    requests.post(f"{otlp_sink.endpoint}/v1/traces", spans("other"), headers=PROTOBUF, timeout=60)
    with pytest.raises(AssertionError, match=r"1 requests held \['other'\]"):
        otlp_sink.wait_for(lambda sink: bool(sink.spans("never")), timeout=0.01)


@pytest.mark.parametrize(
    ("body", "headers", "status", "violation"),
    [
        (spans("gym.sandbox.resource.nap"), PROTOBUF, 200, None),
        (spans("gym.sandbox.resource.sample"), PROTOBUF, 200, "note: not registered here"),
        (b"\xff\xff", PROTOBUF, 400, "/v1/traces: the body is no OTLP protobuf"),
        (b"{}", {"Content-Type": "application/json"}, 415, "/v1/traces: content type application/json"),
    ],
)
def test_what_breaks_the_contract_is_collected(
    body: bytes, headers: dict[str, str], status: int, violation: str | None
) -> None:
    with OtlpSink() as sink:
        answer = requests.post(f"{sink.endpoint}/v1/traces", body, headers=headers, timeout=60)
    assert answer.status_code == status
    if violation is None:
        assert sink.violations == []
    else:
        assert any(violation in found for found in sink.violations)


BREAKS_THE_CONTRACT = """
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

def test_breaks_the_contract(otlp_sink):
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name="gym.sandbox.request")
    headers = {"Content-Type": "application/x-protobuf"}
    answer = requests.post(f"{otlp_sink.endpoint}/v1/traces", request.SerializeToString(), headers=headers, timeout=60)
    answer.raise_for_status()
"""


def test_the_fixture_fails_its_test_for_a_violation(tmp_path: Path) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_inner.py").write_text(BREAKS_THE_CONTRACT)
    inner = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed, 1 error" in inner.stdout
    assert "gym.sandbox.request: nemo.gym.sandbox.requested.count: required and missing" in inner.stdout


def test_a_closed_sink_breaks_its_connections_and_another_takes_its_port() -> None:
    with requests.Session() as client:
        with OtlpSink() as first:
            client.post(f"{first.endpoint}/v1/traces", spans("a"), headers=PROTOBUF).raise_for_status()
        with pytest.raises(requests.ConnectionError):
            client.post(f"{first.endpoint}/v1/traces", spans("b"), headers=PROTOBUF)
        with OtlpSink(first.port) as second:
            client.post(f"{second.endpoint}/v1/traces", spans("c"), headers=PROTOBUF).raise_for_status()
    assert [span.name for span in second.spans()] == ["c"]


def test_a_taken_port_is_an_error_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="address already in use"), OtlpSink(taken.getsockname()[1]):
            pass
