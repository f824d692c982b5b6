"""What each answer of a receiver means."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from sandgauge_poller.export.answer import Answer, Outcome, Verdict, classify
from sandgauge_schemas.names import Signal

NOW_S = 1_767_225_600.0
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html; charset=utf-8"}


def judge(status, headers=None, body=b"", signal=Signal.TRACES):
    return classify(signal, Answer(status=status, headers=headers or {}, body=body), now_s=NOW_S)


def partial(rejected, message=""):
    success = ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    return ExportTraceServiceResponse(partial_success=success).SerializeToString()


@pytest.mark.parametrize("status", [200, 202, 204, 206])
@pytest.mark.parametrize("headers", [{}, PROTOBUF, JSON, HTML, {"content-type": "text/plain"}])
def test_any_success_with_an_empty_body_is_delivered(status, headers):
    assert judge(status, headers) == Outcome(verdict=Verdict.DELIVERED)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (PROTOBUF, partial(0)),
        (PROTOBUF, b"\x0a\x00"),
        (JSON, b"{}"),
        (JSON, b' {"partialSuccess": {}}\n'),
        (JSON, b'{"partialSuccess": {"rejectedSpans": "0"}, "ofTheFuture": [1]}'),
        ({"content-type": "Application/JSON; charset=utf-8"}, b"{}"),
        ({"content-type": "text/plain"}, b"{}"),
        ({}, b"{}"),
    ],
)
def test_an_otlp_answer_without_complaint_is_delivered(headers, body):
    assert judge(200, headers, body) == Outcome(verdict=Verdict.DELIVERED)


@pytest.mark.parametrize(
    ("headers", "body", "rejected", "detail"),
    [
        (PROTOBUF, partial(0, "soon deprecated"), 0, "soon deprecated"),
        (PROTOBUF, partial(3, "too many attributes"), 3, "too many attributes"),
        (JSON, b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too many attributes"}}', 3,
         "too many attributes"),
        (JSON, b'{"partialSuccess":{"rejectedSpans":3}}', 3, ""),
        (PROTOBUF, partial(-5, "a\nb" + "c" * 500), 0, "a b" + "c" * 197),
    ],
)  # fmt: skip
def test_a_partial_success_is_delivered_with_what_was_refused(headers, body, rejected, detail):
    assert judge(200, headers, body) == Outcome(verdict=Verdict.DELIVERED, rejected=rejected, detail=detail)


def test_a_partial_success_of_metrics_counts_points():
    success = ExportMetricsPartialSuccess(rejected_data_points=2, error_message="too old")
    body = ExportMetricsServiceResponse(partial_success=success).SerializeToString()
    expected = Outcome(verdict=Verdict.DELIVERED, rejected=2, detail="too old")
    assert judge(200, PROTOBUF, body, Signal.METRICS) == expected
    body = b'{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"too old"}}'
    assert judge(200, JSON, body, Signal.METRICS) == expected


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (HTML, b"<html>ok</html>"),
        (PROTOBUF, b"<html>ok</html>"),
        (PROTOBUF, b"\xff\xff\xff"),
        ({}, b"<html>ok</html>"),
        (JSON, b"[]"),
        (JSON, b'{"partialSuccess": 7}'),
        (JSON, b'{"partialSuccess": {"rejectedSpans": "many"}}'),
        (JSON, b"{" * 50_000),
        (JSON, b'{"a":' * 20_000),
        (JSON, b'{"\xff": 1}'),
        ({"content-type": "text/plain"}, b"OK"),
    ],
)
@pytest.mark.parametrize("status", [200, 202])
def test_a_success_whose_body_is_no_otlp_is_sent_again(status, headers, body):
    outcome = judge(status, headers, body)
    assert outcome.verdict is Verdict.RETRY
    assert f"HTTP {status}" in outcome.detail
    assert "export.endpoint" in outcome.detail


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        (None, None),
        ("5", 5.0),
        (" 3 ", 3.0),
        ("0", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("", None),
        ("9" * 5000, 3600.0),
        ("86400", 3600.0),
        (formatdate(NOW_S + 7, usegmt=True), 7.0),
        (formatdate(NOW_S - 7, usegmt=True), None),
        (formatdate(NOW_S + 1e9, usegmt=True), 3600.0),
        ("Thu, 99 Jan 2026 00:00:07 GMT", None),
        ("Thu, 01 Jan 2026 00:00:07", 7.0),
    ],
)
def test_overload_is_sent_again_when_it_was_asked_for(status, retry_after, seconds):
    headers = {} if retry_after is None else {"retry-after": retry_after}
    assert judge(status, headers, b"busy") == Outcome(
        verdict=Verdict.RETRY, retry_after_s=seconds, detail=f"HTTP {status}"
    )


@pytest.mark.parametrize("status", [*range(300, 309), 400, 401, 403, 404, 405, 408, 413, 415, 500, 501, 505])
def test_every_other_answer_is_final(status):
    outcome = judge(status, {"retry-after": "5", **PROTOBUF}, partial(1))
    assert (outcome.verdict, outcome.rejected, outcome.retry_after_s) == (Verdict.REJECTED, 0, None)
    assert outcome.detail.startswith(f"HTTP {status}")


@pytest.mark.parametrize(
    ("status", "cure"), [(401, "export.headers"), (404, "export.endpoint"), (413, "max_request_body_size")]
)
def test_a_refusal_with_a_known_cause_names_the_cure(status, cure):
    assert cure in judge(status).detail


@given(
    status=st.integers(0, 999),
    headers=st.dictionaries(st.sampled_from(["content-type", "retry-after"]), st.text(max_size=40)),
    body=st.binary(max_size=200),
    signal=st.sampled_from(Signal),
)
def test_no_answer_raises(status, headers, body, signal):
    assert judge(status, headers, body, signal).verdict in Verdict
