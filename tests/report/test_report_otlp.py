import pytest

from sandgauge_report.reading.otlp import NotTracesError, plain, spans
from sandgauge_schemas import names
from support.otlp_json import START_NS, captured, from_resource, key_values, span, start, traces


def only(request):
    (found,) = spans(request)
    return found


def test_a_span_has_what_its_resource_says_and_its_own_counts_more():
    resource = {names.NEMO_RUN_ID: "run-1", names.NEMO_GYM_ROLLOUT_ID: "0-0", names.SERVICE_NAME: "nemo-gym/x"}
    one = span(names.SPAN_GYM_SANDBOX_STOP, {names.NEMO_GYM_ROLLOUT_ID: "7-7"})
    found = only(traces(from_resource(resource, one)))
    assert found.attributes == {names.NEMO_RUN_ID: "run-1", names.NEMO_GYM_ROLLOUT_ID: "7-7"}
    assert (found.start_ns, found.end_ns, found.failed) == (START_NS, START_NS + 10**9, False)


def test_other_spans_are_passed_over():
    others = ("gym.verify", names.SPAN_GYM_SANDBOX_EXEC, "gym.sandbox.starts")
    assert list(spans(traces(from_resource({}, *(span(name) for name in others))))) == []


@pytest.mark.parametrize("case", ["opensandbox", "cancelled_create", "fake_fail", "rollout"])
def test_what_gym_really_sends_is_read(case):
    assert {one.name for one in spans(captured(case))} >= {names.SPAN_GYM_SANDBOX_START}


def test_ids_in_capitals_are_the_same_ids():
    lower = only(traces(from_resource({}, start(traceId="ab" * 16, spanId="cd" * 8))))
    upper = only(traces(from_resource({}, start(traceId="AB" * 16, spanId="CD" * 8))))
    assert (upper.trace_id, upper.span_id) == (lower.trace_id, lower.span_id)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"stringValue": "x"}, "x"),
        ({"boolValue": True}, True),
        ({"intValue": "9007199254740993"}, 9007199254740993),
        ({"intValue": 7}, 7),
        ({"doubleValue": 2}, 2.0),
        ({"doubleValue": "2.5"}, 2.5),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}]}}, ("a",)),
        ({"stringValue": "a\x1b[31mb\ud800"}, "a\\x1b[31mb\\ud800"),
        ({"intValue": "many"}, None),
        ({"intValue": "9" * 40}, None),
        ({"doubleValue": "NaN"}, None),
        ({"doubleValue": 1e300}, None),
        ({"stringValue": 7}, None),
        ({"doubleValue": None}, None),
        ({"somethingNew": "x"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_values_in_every_form_and_what_is_none_is_absent(value, read):
    assert plain([{"key": "k", "value": value}]).get("k") == read


def test_times_that_are_none_are_not_given():
    found = only(traces(from_resource({}, start(startTimeUnixNano=None, endTimeUnixNano="soon"))))
    assert (found.start_ns, found.end_ns) == (0, 0)


def test_a_failure_says_why():
    event = {"name": "exception", "attributes": key_values({"exception.type": "SandboxCreateError"})}
    found = only(traces(from_resource({}, start(events=[{"name": "x"}, event], status={"code": 2}))))
    assert (found.failed, found.error_type) == (True, "SandboxCreateError")


@pytest.mark.parametrize("request_", [{}, {"resourceMetrics": []}, {"resourceLogs": [{}]}, [{"resourceSpans": []}, {}]])
def test_other_signals_and_nothing_are_no_mistake(request_):
    assert list(spans(request_)) == []


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (17, "not a JSON object"),
        (["x"], "not a JSON object"),
        ({"spans": []}, "has no resourceSpans"),
        ({"resourceSpans": [{"instrumentationLibrarySpans": []}]}, "before 1.0"),
        ({"resourceSpans": [7]}, "wrong type"),
        (
            {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": names.SPAN_GYM_ROLLOUT, "attributes": [1]}]}]}]},
            "wrong type",
        ),
    ],
)
def test_what_is_no_trace_request_is_refused_with_a_reason(document, reason):
    with pytest.raises(NotTracesError, match=reason):
        list(spans(document))
