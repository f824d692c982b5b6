"""Both encodings of one request mean the same, and no bytes whatever are more than a refusal."""

import json
import random
from collections import Counter
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from sandgauge_poller.ingest.lifecycle import Interpreted, interpret
from sandgauge_poller.ingest.otlp_json import decode_json
from sandgauge_poller.ingest.otlp_protobuf import decode_protobuf
from sandgauge_poller.ingest.spans import LIFECYCLE_SPANS, MAX_TEXT, Decoded, UndecodableError
from sandgauge_schemas import names
from support.otlp_encodings import to_json, to_protobuf
from support.otlp_json import GYM_CASES, captured

NOW_NS = 1_795_000_010_000_000_000
PROTOBUF = "application/x-protobuf"

KEYS = sorted(
    value
    for constant, value in vars(names).items()
    if constant.startswith(("NEMO_", "SERVICE_", "OTEL_")) and isinstance(value, str)
)
texts = st.text(max_size=8) | st.sampled_from(["s-1", "7-0", "sandgauge-poller"]) | st.just("x" * (MAX_TEXT + 1))
scalars = (
    st.builds(AnyValue, string_value=texts)
    | st.builds(AnyValue, bool_value=st.booleans())
    | st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1))
    | st.builds(AnyValue, double_value=st.floats())
    | st.builds(AnyValue, bytes_value=st.binary(max_size=4))
    | st.just(AnyValue())
)
values = scalars | st.builds(AnyValue, array_value=st.builds(ArrayValue, values=st.lists(scalars, max_size=2)))
attributes = st.lists(st.builds(KeyValue, key=st.sampled_from(KEYS) | texts, value=values), max_size=8)
sandbox_attribute = st.builds(
    KeyValue, key=st.just(names.NEMO_GYM_SANDBOX_ID), value=st.builds(AnyValue, string_value=st.just("s-1"))
)
times = st.integers(0, 2**64 - 1) | st.integers(NOW_NS - 10**12, NOW_NS + 10**12)


def ids(length: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=length, max_size=length) | st.just(bytes(length)) | st.binary(max_size=length + 1)


spans = st.builds(
    Span,
    name=st.sampled_from([*sorted(LIFECYCLE_SPANS), "gym.sandbox.exec"]) | texts,
    trace_id=ids(16),
    span_id=ids(8),
    parent_span_id=ids(8),
    kind=st.integers(0, 5),
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=st.builds(lambda given, own: [*given, own], attributes, sandbox_attribute) | attributes,
    status=st.builds(Status, code=st.integers(0, 2), message=texts),
)
scopes = st.none() | st.builds(InstrumentationScope, name=texts)
requests = st.builds(
    ExportTraceServiceRequest,
    resource_spans=st.lists(
        st.builds(
            ResourceSpans,
            resource=st.builds(Resource, attributes=attributes),
            scope_spans=st.lists(st.builds(ScopeSpans, scope=scopes, spans=st.lists(spans, max_size=3)), max_size=2),
        ),
        max_size=2,
    ),
)


def meanings(decoded: Decoded) -> tuple[list[Interpreted], list[bool], Counter[str]]:
    found = [interpret(span, NOW_NS) for span in decoded.spans]
    return found, [span.contradictory for span in decoded.spans], decoded.passed_over


@given(request=requests, numbers_as_text=st.booleans())
def test_both_encodings_of_a_request_mean_the_same(request, numbers_as_text):
    written = to_json(request)
    if not numbers_as_text:
        _numbers_from_text(written)
    by_json, by_protobuf = decode_json(json.dumps(written).encode()), decode_protobuf(request.SerializeToString())
    assert meanings(by_json) == meanings(by_protobuf)


def _numbers_from_text(tree: Any) -> None:
    """Write 64-bit numbers as numbers, which senders also do."""
    if isinstance(tree, list):
        for item in tree:
            _numbers_from_text(item)
    if isinstance(tree, dict):
        for key, item in tree.items():
            if key in {"intValue", "startTimeUnixNano", "endTimeUnixNano"}:
                tree[key] = int(item)
            else:
                _numbers_from_text(item)


OTLP_WORDS = [
    *("resourceSpans", "resource", "scopeSpans", "spans", "attributes", "key", "value", "name", "traceId", "spanId"),
    *("parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "status", "code", "stringValue", "intValue"),
    *("doubleValue", "boolValue", "arrayValue", *sorted(LIFECYCLE_SPANS), *KEYS),
]
WRONG_TYPES: list[Any] = [None, True, 7, 1.5, "x", [], {}, [{}]]
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 2**63, 2**64, 10**400, 1.5, 1e308, float("nan"), float("inf")),
    *("", "x", "\ud800", "\x00", "0" * 32, "ab" * 8, "1e3", "-5", [], {}, [[]], [{}], {"": None}, "x" * 2000),
    *OTLP_WORDS,
]


def broken(rng: random.Random) -> Any:
    """Return a captured request of Gym in which a few places hold something else."""
    request = captured(rng.choice(GYM_CASES))
    for _ in range(rng.randint(1, 4)):
        _break_one_place(request, rng)
    return request


def _break_one_place(tree: Any, rng: random.Random) -> None:
    while isinstance(tree, dict | list) and tree:
        place = rng.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        if rng.random() < 0.15 or not isinstance(tree[place], dict | list):
            match rng.randrange(3), tree:
                case 0, dict():
                    tree[rng.choice(OTLP_WORDS)] = tree.pop(place)
                case 1, _:
                    del tree[place]
                case _:
                    tree[place] = deepcopy(rng.choice(rng.choice([WRONG_TYPES, JUNK])))
            return
        tree = tree[place]


def damaged(body: bytes, rng: random.Random) -> bytes:
    """Return bytes that were a request before some of them changed, went or came twice."""
    changed = bytearray(body)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed) or 1)
        match rng.randrange(4):
            case 0:
                changed[at : at + 1] = rng.randbytes(1)
            case 1:
                del changed[at : at + rng.randint(1, 40)]
            case 2:
                changed[at:at] = changed[at : at + rng.randint(1, 40)]
            case _:
                changed[at:at] = rng.randbytes(rng.randint(1, 9))
    return bytes(changed)


def bodies(count: int) -> list[tuple[str, bytes]]:
    rng = random.Random(20261)
    whole_json = [json.dumps(captured(case)).encode() for case in GYM_CASES]
    whole_protobuf = [to_protobuf(captured(case)) for case in GYM_CASES]
    makers = [
        ("application/json", lambda: json.dumps(broken(rng)).encode()),
        ("application/json", lambda: damaged(rng.choice(whole_json), rng)),
        ("application/json", lambda: rng.randbytes(rng.randrange(200))),
        (PROTOBUF, lambda: damaged(rng.choice(whole_protobuf), rng)),
        (PROTOBUF, lambda: rng.randbytes(rng.randrange(200))),
    ]
    return [(content_type, make()) for content_type, make in makers for _ in range(count)]


def test_no_bytes_whatever_are_more_than_undecodable():
    outcomes: Counter[str] = Counter()
    for content_type, body in bodies(2000):
        try:
            decoded = (decode_json if content_type == "application/json" else decode_protobuf)(body)
        except UndecodableError:
            outcomes["undecodable"] += 1
            continue
        outcomes.update(interpret(span, NOW_NS).outcome for span in decoded.spans)
    assert outcomes["undecodable"] > 1000
    assert outcomes["accepted"] > 1000


async def test_no_body_whatever_breaks_the_server(ingest, silent_log):
    statuses: Counter[int] = Counter()
    for content_type, body in bodies(600):
        statuses[(await ingest.post(body, content_type)).status] += 1
    assert statuses.keys() == {200, 400}
    assert min(statuses.values()) > 300
