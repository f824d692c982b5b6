"""Bodies that nobody sends on purpose: good requests damaged in every way, and a few that are made to hurt."""

import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sandgauge_poller.ingest.spans import MOST_LIFECYCLE_SPANS
from sandgauge_schemas import names
from support.feed import rollout_span, start_span, stop_span
from support.forged_spans import forged_batches
from support.otlp_encodings import to_json, to_protobuf
from support.otlp_json import GYM_CASES, captured, from_resource, new_trace_id, span, traces

JSON, PROTOBUF = "application/json", "application/x-protobuf"
TAKEN, REFUSED, TOO_LARGE = frozenset({200}), frozenset({400}), frozenset({413})
LIMIT = 20 * 2**20
"""The limit of a body, decompressed, that the hurting ones are made for."""

_HURTING_SHARE = 0.0005
_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 2**64, 10**400, 1e308, float("nan"), float("inf"), "", "\0", "\ud800", "x" * 5000,
    "../../etc/passwd", "9" * 25, [], {}, [[[[]]]], [None], {"": {}}, {"values": [{}]}, [{}] * 50,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """A request, what was done to it, and the statuses that are right."""

    kind: str
    content_type: str
    body: bytes
    right: frozenset[int]
    packed: bool = False


def fuzzed_bodies(count: int, seed: int) -> Iterator[Fuzzed]:
    """Yield so many bodies, of every kind; the same for the same seed."""
    return _Fuzzer(random.Random(seed)).bodies(count)


@cache
def hurting_bodies() -> tuple[Fuzzed, ...]:
    """Return one of each body that is made to take memory or time; those that can be packed are small to send."""
    return (
        _packed("empty spans", PROTOBUF, _in_scope(b"\x12\x00" * (LIMIT // 2 - 40)), TOO_LARGE),
        _packed("empty attributes", PROTOBUF, _in_scope(_field(2, _START + b"\x4a\x00" * (LIMIT // 2 - 100))), TAKEN),
        _packed("spans of empty attributes", PROTOBUF, _filled(_field(2, _START + b"\x4a\x00" * 50_000)), TOO_LARGE),
        _packed("unknown fields", PROTOBUF, b"\x78\x00" * (LIMIT // 2), TOO_LARGE),
        _packed("short start spans", PROTOBUF, _filled(_field(2, _START)), TOO_LARGE),
        _packed("as many start spans as may be", PROTOBUF, _in_scope(_field(2, _START) * MOST_LIFECYCLE_SPANS), TAKEN),
        _packed("too many start spans", PROTOBUF, _in_scope(_field(2, _START) * 45_000), TOO_LARGE),
        _packed("as many distinct start spans as may be", PROTOBUF, _most_sandboxes(), TAKEN),
        _packed("as many distinct start spans as may be", JSON, _as_json(_most_sandboxes()), TAKEN),
        _packed("distinct attributes", PROTOBUF, _filled(_field(2, _START + _distinct(2000)), most=480), TAKEN),
        _packed("many attributes", PROTOBUF, _many_attributes(), TAKEN),
        _packed("deep values", PROTOBUF, _deep_protobuf(), REFUSED),
        _packed("a huge name", PROTOBUF, _in_scope(_field(2, _field(5, b"x" * (LIMIT - 100)))), TAKEN),
        _packed("objects", JSON, _json_spans("{}", LIMIT // 3 - 40), TOO_LARGE),
        _packed("as many objects as may be", JSON, _json_spans('{"a":' * 900 + "1" + "}" * 900, 1100), TAKEN | REFUSED),
        _packed("deep lists", JSON, b"[" * LIMIT, TOO_LARGE),
        _packed("a deep list", JSON, b"[" * 100_000, REFUSED),
        _packed("long numbers", JSON, b'{"resourceSpans":' + b"9" * (LIMIT - 20) + b"}", REFUSED),
        _packed("a wide string", JSON, json.dumps({"resourceSpans": [], "x": "😀" * (LIMIT // 5)}, ensure_ascii=False)
                .encode(), TAKEN),
        _packed("many attributes", JSON, json.dumps(_in_json(_attributes(100_000))).encode(), TAKEN),
        Fuzzed("a bomb", JSON, _bomb(), TOO_LARGE, packed=True),
        Fuzzed("a bomb", PROTOBUF, _bomb(), TOO_LARGE, packed=True),
    )  # fmt: skip


class _Fuzzer:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._requests = [captured(case) for case in GYM_CASES] + [_every_kind() for _ in range(20)]
        self._encoded = {
            JSON: [json.dumps(request).encode() for request in self._requests],
            PROTOBUF: [to_protobuf(request) for request in self._requests],
        }
        self._hurting = hurting_bodies()
        self._kinds: list[Callable[[str], Fuzzed]] = [
            self._good, self._flipped, self._flipped, self._cut, self._spliced, self._spliced, self._noise,
            self._odd, self._odd, self._odd, self._half_packed, self._wrong_type,
        ]  # fmt: skip

    def bodies(self, count: int) -> Iterator[Fuzzed]:
        for number in range(count):
            if self._rng.random() < _HURTING_SHARE:
                yield self._rng.choice(self._hurting)
                continue
            made = self._kinds[number % len(self._kinds)](self._rng.choice((JSON, PROTOBUF)))
            if not made.packed and self._rng.random() < 0.3:
                made = _packed(made.kind, made.content_type, made.body, made.right)
            yield made

    def _good(self, content_type: str) -> Fuzzed:
        return Fuzzed("good", content_type, self._rng.choice(self._encoded[content_type]), TAKEN)

    def _flipped(self, content_type: str) -> Fuzzed:
        body = bytearray(self._good(content_type).body)
        for _ in range(self._rng.randint(1, 8)):
            body[self._rng.randrange(len(body))] = self._rng.randrange(256)
        return _judged("flipped", content_type, bytes(body))

    def _cut(self, content_type: str) -> Fuzzed:
        body = self._good(content_type).body
        return _judged("cut", content_type, body[: self._rng.randrange(len(body))])

    def _spliced(self, content_type: str) -> Fuzzed:
        """Put a piece of one body into another: sizes and brackets that no longer fit."""
        body, other = self._good(content_type).body, self._good(content_type).body
        at, start = self._rng.randrange(len(body)), self._rng.randrange(len(other))
        piece = other[start : start + self._rng.randint(1, 200)]
        return _judged("spliced", content_type, body[:at] + piece + body[at + self._rng.randint(0, 100) :])

    def _noise(self, content_type: str) -> Fuzzed:
        return _judged("noise", content_type, self._rng.randbytes(self._rng.randint(0, 2000)))

    def _odd(self, _: str) -> Fuzzed:
        """Replace parts of a request by values that do not belong there."""
        request = deepcopy(self._rng.choice(self._requests))
        for _ in range(self._rng.randint(1, 3)):
            holder, key = self._rng.choice(list(_places(request)))
            holder[key] = deepcopy(self._rng.choice(_ODD))
        return _judged("odd", JSON, json.dumps(request).encode())

    def _half_packed(self, content_type: str) -> Fuzzed:
        body = gzip.compress(self._good(content_type).body, 1)
        return Fuzzed("half packed", content_type, body[: self._rng.randrange(len(body))], REFUSED, packed=True)

    def _wrong_type(self, content_type: str) -> Fuzzed:
        """Say the one encoding and send the other."""
        other = PROTOBUF if content_type == JSON else JSON
        return Fuzzed("wrong type", content_type, self._good(other).body, REFUSED)


def _judged(kind: str, content_type: str, body: bytes) -> Fuzzed:
    """Return a body with what is right: what is no JSON is refused, of the rest it depends."""
    if content_type == JSON:
        try:
            json.loads(body.decode("utf-8-sig"))
        except ValueError:
            return Fuzzed(kind, content_type, body, REFUSED)
    return Fuzzed(kind, content_type, body, TAKEN | REFUSED)


def _packed(kind: str, content_type: str, body: bytes, right: frozenset[int]) -> Fuzzed:
    return Fuzzed(kind, content_type, gzip.compress(body, 1), right, packed=True)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a request below its top."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _every_kind() -> dict[str, Any]:
    trace_id = new_trace_id()
    request = span(names.SPAN_GYM_SANDBOX_REQUEST, {names.NEMO_GYM_SANDBOX_REQUEST_ID: "r-1"}, trace_id=trace_id)
    spans = [start_span("s-1", trace_id=trace_id), stop_span("s-1", trace_id=trace_id), rollout_span(trace_id, "7-0")]
    return traces(from_resource({names.NEMO_RUN_ID: "run-1"}, request, *spans, span("another")))


def _most_sandboxes() -> bytes:
    return next(forged_batches(MOST_LIFECYCLE_SPANS, MOST_LIFECYCLE_SPANS))


def _as_json(body: bytes) -> bytes:
    return json.dumps(to_json(ExportTraceServiceRequest.FromString(body))).encode()


def _attributes(count: int) -> dict[str, Any]:
    return {names.NEMO_GYM_SANDBOX_ID: "s-1", **{f"nemo.a{number}": number for number in range(count)}}


def _in_json(attributes: dict[str, Any]) -> dict[str, Any]:
    return traces(from_resource({}, span(names.SPAN_GYM_SANDBOX_START, attributes)))


def _many_attributes() -> bytes:
    request = ExportTraceServiceRequest()
    added = request.resource_spans.add().scope_spans.add().spans.add(name="another", trace_id=b"\1" * 16)
    for number in range(100_000):
        added.attributes.add(key=f"nemo.a{number}").value.int_value = number
    return request.SerializeToString()


def _deep_protobuf() -> bytes:
    value = b""
    for _ in range(1000):  # an AnyValue in an ArrayValue in an AnyValue
        value = _field(AnyValue.ARRAY_VALUE_FIELD_NUMBER, _field(1, value))
    return _in_scope(_field(2, _START + _field(Span.ATTRIBUTES_FIELD_NUMBER, _field(1, b"nemo.a") + _field(2, value))))


def _json_spans(item: str, count: int) -> bytes:
    return ('{"resourceSpans":[{"scopeSpans":[{"spans":[' + ",".join([item] * count) + "]}]}]}").encode()


def _distinct(count: int) -> bytes:
    """Return so many attributes that are all kept, each as short as can be."""
    attributes = (_field(1, b"nemo.%x" % number) + _field(2, b"\x0a\x00") for number in range(count))
    return b"".join(_field(Span.ATTRIBUTES_FIELD_NUMBER, attribute) for attribute in attributes)


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content


def _in_scope(spans: bytes) -> bytes:
    return _field(1, _field(2, spans))


def _filled(one: bytes, most: int = LIMIT) -> bytes:
    return _in_scope(one * min(most, (LIMIT - 100) // len(one)))


def _bomb() -> bytes:
    packer, zeros = zlib.compressobj(wbits=31), bytes(2**20)
    return b"".join([*(packer.compress(zeros) for _ in range(256)), packer.flush()])


_START = Span(
    name=names.SPAN_GYM_SANDBOX_START, trace_id=b"\1" * 16, span_id=b"\2" * 8, attributes=[]
).SerializeToString() + _field(
    Span.ATTRIBUTES_FIELD_NUMBER, _field(1, names.NEMO_GYM_SANDBOX_ID.encode()) + _field(2, _field(1, b"s-1"))
)
