"""JSON documents of a file's lines: one in a line, or one over many lines, as tools for people write it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sandgauge_report.reading.files import MAX_LINE, Line

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON value, and the line on which it begins."""

    line: int
    content: Any


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line, or the first of several, of which nothing can be made."""

    line: int
    reason: str


_CUT_OFF = "cut off in the middle of a record"
_TOO_LONG = "longer than any record"
_NO_JSON = "not JSON"


def documents(lines: Iterable[Line]) -> Iterator[Document | Unreadable]:
    """Yield what the lines hold.

    A line that is no whole value begins a document of several lines, which ends with a bracket at the beginning of a
    line; a next opening bracket there says that it was cut off instead.
    """
    begun = _Begun()
    for number, content in lines:
        if content is None:
            yield from begun.give_up()
            yield Unreadable(number, _TOO_LONG)
            continue
        text = content.removeprefix(_BYTE_ORDER_MARK) if number == 1 else content
        if not text.strip():
            continue
        if begun.parts and not text.startswith(_OPENING):
            yield from begun.go_on(text)
            continue
        yield from begun.give_up()
        try:
            yield Document(number, json.loads(text))
        except (ValueError, RecursionError):
            if text.startswith(_OPENING):
                begun = _Begun(number, [text], len(text))
            else:
                yield Unreadable(number, _NO_JSON)
    yield from begun.give_up()


@dataclass(slots=True)
class _Begun:
    """A document of which the end has not come yet."""

    line: int = 0
    parts: list[bytes] | None = None
    size: int = 0

    def go_on(self, text: bytes) -> Iterator[Document | Unreadable]:
        """Take one more line; it may be the last."""
        parts = self.parts or []
        parts.append(text)
        self.size += len(text)
        if self.size > MAX_LINE:
            yield Unreadable(self.line, _TOO_LONG)
        elif text.startswith(_CLOSING):
            try:
                yield Document(self.line, json.loads(b"".join(parts)))
            except (ValueError, RecursionError):
                yield Unreadable(self.line, _NO_JSON)
        else:
            return
        self.parts = None

    def give_up(self) -> Iterator[Unreadable]:
        """Say that the end never came."""
        if self.parts:
            self.parts = None
            yield Unreadable(self.line, _CUT_OFF)
