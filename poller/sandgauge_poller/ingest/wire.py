"""The outer levels of a protobuf message, field by field, so that nothing is built of what nobody looks into.

The protobuf library builds a message as a whole, and takes a hundred times the size of one that is made of tiny ones.
"""

from collections.abc import Iterator

from sandgauge_poller.ingest.spans import MOST_ITEMS, TooManyItemsError, UndecodableError

_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_FIXED = {_I64: 8, _I32: 4}
_LONGEST_VARINT = 10
_LAST_BYTE = 0x7F
"""A larger byte of a number says that more follow."""


class WireReader:
    """Read messages of one request, which together may have so many items: fields that are stepped over, or more."""

    def __init__(self, most_items: int = MOST_ITEMS) -> None:
        self._left = most_items

    def spend(self, items: int) -> None:
        """Take items off those that are allowed; raises TooManyItemsError when there are none left."""
        self._left -= items
        if self._left < 0:
            raise TooManyItemsError

    def contents(self, message: memoryview, number: int) -> Iterator[memoryview]:
        """Yield the content of each field of that number that is a message or text.

        Raises UndecodableError where the message is no protobuf, and TooManyItemsError.
        """
        at, end = 0, len(message)
        while at < end:
            self._left -= 1
            if self._left < 0:
                raise TooManyItemsError
            tag = message[at]
            at += 1
            if tag > _LAST_BYTE:
                tag, at = _varint(message, at - 1)
            kind = tag & 7
            if kind == _LEN:
                length, at = _varint(message, at)
                following = at + length
            elif kind == _VARINT:
                _, following = _varint(message, at)
            elif kind in _FIXED:
                following = at + _FIXED[kind]
            else:
                raise UndecodableError("the body is not an OTLP trace request in protobuf")
            if following > end or tag >> 3 == 0:
                raise UndecodableError("the body is not an OTLP trace request in protobuf")
            if kind == _LEN and tag >> 3 == number:
                yield message[at:following]
            at = following


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins there, and where the next thing begins."""
    if at + 1 < len(message) and message[at + 1] <= _LAST_BYTE < message[at]:  # as nearly all lengths of spans are
        return message[at] & 0x7F | message[at + 1] << 7, at + 2
    value = shift = 0
    for byte in message[at : at + _LONGEST_VARINT]:
        at += 1
        value |= (byte & 0x7F) << shift
        if byte <= _LAST_BYTE:
            return value, at
        shift += 7
    raise UndecodableError("the body is not an OTLP trace request in protobuf")
