"""Pieces of OTLP messages as bytes, for what is sent a thousand times a second.

Protobuf lets a message be written as the concatenation of its fields. What stays the same from one reading to the next
is therefore serialized once, by the protobuf classes; times and doubles, which have a fixed size, are packed behind
their tags; and tags are taken from what the classes write. Fields may stand in any order; the bytes are deterministic.
"""

import struct
from collections.abc import Callable
from functools import cache, lru_cache

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
    NumberDataPoint,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from sandgauge_schemas.attributes import Attributes, AttributeValue
from sandgauge_schemas.names import METRIC_UNITS

_LENGTH_DELIMITED = 2
_VARINT_MORE = 0x80
_FIXED = 8
"""Bytes of a time, of a double and of a span id."""
_MOST_FRAMES = 4096
"""Frames kept: one for each length of what they hold, and lengths differ little."""

pack_time = struct.Struct("<Q").pack
"""Nanoseconds since the epoch."""
pack_double = struct.Struct("<d").pack

Carrier = Callable[[], Span | NumberDataPoint | Resource]
"""Classes of messages with attributes."""


def field(number: int, message: bytes) -> bytes:
    """Return a message as a field of another: key and length as varints, then its bytes."""
    return head(number, len(message)) + message


def head(number: int, length: int) -> bytes:
    """Return what stands before so many bytes of a message in that field."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(length)


def encode_attributes(carrier: Carrier, attributes: Attributes) -> bytes:
    """Return attributes as fields of the message that carries them, in their order."""
    return b"".join([encode_attribute(carrier, key, value) for key, value in attributes.items()])


def encode_attribute(carrier: Carrier, key: str, value: AttributeValue) -> bytes:
    """Return one attribute as a field of the message that carries it."""
    if isinstance(value, float):
        return _before_double(carrier, key) + pack_double(value)
    if type(value) is int and value >= 0:
        encoded = _varint(value)
        return _before_whole(carrier, key, len(encoded)) + encoded
    return _serialized(carrier, key, value)


def before_fixed(message: Message) -> bytes:
    """Return what stands before the one field of a message that has nothing but a time, a double or a span id."""
    return message.SerializeToString()[:-_FIXED]


def _serialized(carrier: Carrier, key: str, value: AttributeValue) -> bytes:
    message = carrier()
    _set(message.attributes.add(key=key).value, value)
    return message.SerializeToString()


@cache
def _before_double(carrier: Carrier, key: str) -> bytes:
    return _serialized(carrier, key, 1.0)[:-_FIXED]


@cache
def _before_whole(carrier: Carrier, key: str, length: int) -> bytes:
    """Return what stands before a whole number whose varint has that length."""
    return _serialized(carrier, key, 1 << 7 * (length - 1))[:-length]


@lru_cache(maxsize=_MOST_FRAMES)
def before_span(length: int) -> bytes:
    """Return what stands before a span of so many bytes in its ScopeSpans."""
    return head(ScopeSpans.SPANS_FIELD_NUMBER, length)


@lru_cache(maxsize=_MOST_FRAMES)
def before_point(metric: str, *, is_sum: bool, length: int) -> bytes:
    """Return what stands before a data point of so many bytes in its ScopeMetrics: the Metric around it."""
    if is_sum:
        number, data = Metric.SUM_FIELD_NUMBER, _MONOTONIC_SUM + head(Sum.DATA_POINTS_FIELD_NUMBER, length)
    else:
        number, data = Metric.GAUGE_FIELD_NUMBER, head(Sum.DATA_POINTS_FIELD_NUMBER, length)
    described = Metric(name=metric, unit=METRIC_UNITS[metric]).SerializeToString()
    described += head(number, len(data) + length) + data
    return head(ScopeMetrics.METRICS_FIELD_NUMBER, len(described) + length) + described


_MONOTONIC_SUM = Sum(
    is_monotonic=True, aggregation_temporality=AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
).SerializeToString()


def _set(target: AnyValue, value: AttributeValue) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    else:
        target.array_value.SetInParent()
        for element in value:
            target.array_value.values.add(string_value=element)


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value >= _VARINT_MORE:
        groups.append(value & (_VARINT_MORE - 1) | _VARINT_MORE)
        value >>= 7
    groups.append(value)
    return bytes(groups)
