import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_emitter.otlp import Protocol, Target, UnusableEndpointError, resolve

GRPC, HTTP = Protocol.GRPC, Protocol.HTTP
ENDPOINT, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


def resolved(environment, endpoint=None, *, grpc=False) -> Target:
    return resolve(environment, endpoint, lambda protocol: grpc or protocol is HTTP)


@pytest.mark.parametrize(
    ("written", "url", "note"),
    [
        ("http://c:4318", "http://c:4318/v1/traces", None),
        ("http://c:4318/", "http://c:4318/v1/traces", None),
        ("http://c:4318/base/", "http://c:4318/base/v1/traces", None),
        ("https://c/base", "https://c/base/v1/traces", None),
        ("http://c:4318/base?key=x", "http://c:4318/base/v1/traces?key=x", None),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces", None),
        (" http://c:4318 ", "http://c:4318/v1/traces", None),
        ("http://c:4318/v1/traces", "http://c:4318/v1/traces", "ends in /v1/traces"),
        ("http://c:4318/v1/traces/", "http://c:4318/v1/traces", "ends in /v1/traces"),
        ("c:4317", "http://c:4318/v1/traces", "has no scheme"),
        ("http://c:4317", "http://c:4318/v1/traces", "4317 is the port of gRPC"),
        ("http://[::1]:4317/base", "http://[::1]:4318/base/v1/traces", "4317 is the port of gRPC"),
    ],
)
@pytest.mark.parametrize("by_call", [False, True])
def test_forms_of_a_base_url_without_a_grpc_exporter(written, url, note, by_call):
    target = resolved({}, written) if by_call else resolved({ENDPOINT: written})
    assert (target.protocol, target.endpoint) == (HTTP, url)
    notes = "; ".join(target.notes)
    assert (note in notes) if note else not notes
    if note:
        assert ("configure(endpoint=...)" if by_call else ENDPOINT) in notes


@pytest.mark.parametrize(
    ("written", "url", "noted"),
    [
        ("http://c:4318/v1/traces", "http://c:4318/v1/traces", False),
        ("http://c:4318/own/path/", "http://c:4318/own/path/", False),
        ("http://c:4318", "http://c:4318/v1/traces", True),
        ("http://c:4317", "http://c:4318/v1/traces", True),
    ],
)
def test_the_url_of_traces_alone_is_used_as_it_is(written, url, noted):
    target = resolved({TRACES: written, ENDPOINT: "http://elsewhere:4318"})
    assert target.endpoint == url
    assert bool(target.notes) is noted


def test_what_the_program_says_comes_before_the_environment():
    target = resolved({TRACES: "http://a:4318/v1/traces", ENDPOINT: "http://b:4318"}, "http://c:4318")
    assert target.endpoint == "http://c:4318/v1/traces"


@pytest.mark.parametrize(
    ("protocol", "endpoint", "grpc", "expected", "note"),
    [
        (None, None, False, (HTTP, "http://localhost:4318/v1/traces"), None),
        (None, None, True, (GRPC, "http://localhost:4317"), None),
        (None, "http://c:4317", True, (GRPC, "http://c:4317"), None),
        (None, "c:4317", True, (GRPC, "http://c:4317"), "no scheme"),
        (None, "https://c", True, (GRPC, "https://c"), None),
        (None, "http://c:4318", True, (HTTP, "http://c:4318/v1/traces"), None),
        ("grpc", None, False, (HTTP, "http://localhost:4318/v1/traces"), "not installed"),
        ("grpc", "http://c:4317", False, (HTTP, "http://c:4318/v1/traces"), "not installed"),
        ("grpc", "http://c:4317/", True, (GRPC, "http://c:4317"), None),
        ("GRPC", "http://c:4318", True, (GRPC, "http://c:4318"), None),
        ("http/protobuf", None, True, (HTTP, "http://localhost:4318/v1/traces"), None),
        ("http/protobuf", "http://c:4317", True, (HTTP, "http://c:4317/v1/traces"), "port of gRPC"),
        ("http/json", "http://c:4318", True, (HTTP, "http://c:4318/v1/traces"), "neither grpc nor http/protobuf"),
        ("", "http://c:4317", True, (GRPC, "http://c:4317"), None),
    ],
)
def test_the_protocol_is_as_set_else_grpc_where_it_can_be(protocol, endpoint, grpc, expected, note):
    environment = {key: value for key, value in ((PROTOCOL, protocol), (ENDPOINT, endpoint)) if value is not None}
    target = resolved(environment, grpc=grpc)
    assert (target.protocol, target.endpoint) == expected
    notes = "; ".join(target.notes)
    assert (note in notes) if note else not notes


def test_the_protocol_of_traces_comes_before_that_of_all_signals():
    environment = {PROTOCOL: "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
    assert resolved(environment, grpc=True).protocol is HTTP


@pytest.mark.parametrize("written", ["http://", "http://:4318", "http://c:port", "ftp://c:21", "http://[::1", "://c"])
def test_an_endpoint_that_is_no_address_is_named_and_not_quoted(written):
    with pytest.raises(UnusableEndpointError, match=ENDPOINT) as caught:
        resolved({ENDPOINT: written})
    assert written not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("authorization=Basic dXNlcjpwYXNz==", {"authorization": "Basic dXNlcjpwYXNz=="}),
        ("Authorization=Bearer%20abc%3D, x-a = b", {"authorization": "Bearer abc=", "x-a": "b"}),
        ("a=1,,b=2,", {"a": "1", "b": "2"}),
        ('key=a;b"c\\d', {"key": 'a;b"c\\d'}),
        ("key=", {"key": ""}),
        ("", {}),
    ],
)
def test_headers_keep_their_values(text, headers):
    target = resolved({HEADERS: text})
    assert (target.headers, target.notes) == (headers, ())


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("pa55", {}),
        ("=pa55", {}),
        ("na me=pa55", {}),
        ("na:me=pa55,a=1", {"a": "1"}),
        ("key=pa55%0Apa55", {"key": ""}),
        ("key=pa55\N{SNOWMAN}", {"key": ""}),
    ],
)
def test_a_header_that_cannot_be_sent_is_noted_without_its_value(text, headers):
    target = resolved({HEADERS: text})
    assert target.headers == headers
    (note,) = target.notes
    assert HEADERS in note
    assert "pa55" not in note


def test_headers_of_traces_come_before_those_of_all_signals():
    assert resolved({HEADERS: "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "b=2"}).headers == {"b": "2"}


def test_a_target_shows_no_secret():
    target = resolved({HEADERS: "authorization=pa55", ENDPOINT: "http://user:pa55@c:4318"})
    assert "pa55" not in repr(target)


@pytest.mark.parametrize(
    ("text", "seconds", "noted"),
    [("", 10, False), ("2.5", 2.5, False), ("10s", 10, True), ("0", 10, True), ("nan", 10, True), ("-1", 10, True)],
)
def test_the_timeout(text, seconds, noted):
    target = resolved({"OTEL_EXPORTER_OTLP_TIMEOUT": text})
    assert (target.timeout_s, bool(target.notes)) == (seconds, noted)


@given(endpoint=st.text(), headers=st.text(), protocol=st.text(), timeout=st.text(), grpc=st.booleans())
def test_any_environment_gives_a_target_or_says_why_not(endpoint, headers, protocol, timeout, grpc):
    environment = {ENDPOINT: endpoint, HEADERS: headers, PROTOCOL: protocol, "OTEL_EXPORTER_OTLP_TIMEOUT": timeout}
    try:
        target = resolved(environment, grpc=grpc)
    except UnusableEndpointError:
        return
    assert target.endpoint.startswith(("http://", "https://"))
    assert target.timeout_s > 0
