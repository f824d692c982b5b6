"""Prometheus remote write 1.0 as it is on the wire: WriteRequest in protobuf, within one block of snappy."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STALE = 0x7FF0000000000002
"""Bits of the value by which Prometheus ends a series."""

_TYPE = descriptor_pb2.FieldDescriptorProto
_FIELDS: dict[str, tuple[tuple[str, int, int, str], ...]] = {
    "Label": (("name", 1, _TYPE.TYPE_STRING, ""), ("value", 2, _TYPE.TYPE_STRING, "")),
    "Sample": (("value", 1, _TYPE.TYPE_DOUBLE, ""), ("timestamp", 2, _TYPE.TYPE_INT64, "")),
    "TimeSeries": (("labels", 1, _TYPE.TYPE_MESSAGE, "Label"), ("samples", 2, _TYPE.TYPE_MESSAGE, "Sample")),
    "WriteRequest": (("timeseries", 1, _TYPE.TYPE_MESSAGE, "TimeSeries"),),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one series; `labels` has its name under `__name__`."""

    labels: dict[str, str]
    value: float
    time_ms: int

    @property
    def is_stale(self) -> bool:
        """Whether it ends the series."""
        (bits,) = struct.unpack("<Q", struct.pack("<d", self.value))
        return bool(bits == STALE)


def samples_of(body: bytes) -> Iterator[Sample]:
    """Yield the samples of a request in its order."""
    request = _write_request().FromString(_unpack(body))
    for series in request.timeseries:
        labels = {label.name: label.value for label in series.labels}
        for sample in series.samples:
            yield Sample(labels, sample.value, sample.timestamp)


def _write_request() -> type:
    file = descriptor_pb2.FileDescriptorProto(name="remote_write.proto", package="prometheus", syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            label = _TYPE.LABEL_REPEATED if of else _TYPE.LABEL_OPTIONAL
            message.field.add(
                name=field, number=number, type=kind, label=label, type_name=f".prometheus.{of}" if of else None
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("prometheus.WriteRequest"))


def _unpack(block: bytes) -> bytes:
    """Return what a block of snappy holds: literals, and copies of what came before."""
    size, position = _size(block)
    out = bytearray()
    while position < len(block):
        tag = block[position]
        position += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                count = length - 59
                length = int.from_bytes(block[position : position + count], "little")
                position += count
            out += block[position : position + length + 1]
            position += length + 1
            continue
        if tag & 3 == 1:
            length, width, high = (tag >> 2 & 7) + 4, 1, tag >> 5 << 8
        else:
            length, width, high = (tag >> 2) + 1, 2 if tag & 3 == 2 else 4, 0
        offset = high + int.from_bytes(block[position : position + width], "little")
        position += width
        for _ in range(length):  # one by one, since a copy may reach into itself
            out.append(out[-offset])
    assert len(out) == size
    return bytes(out)


def _size(block: bytes) -> tuple[int, int]:
    """Return the unpacked size, a varint, and where it ends."""
    size = 0
    for position, byte in enumerate(block):
        size |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return size, position + 1
    raise AssertionError("an endless size")
