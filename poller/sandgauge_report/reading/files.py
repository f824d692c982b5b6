"""Lines of a file, of a gzip file, or of standard input."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

STANDARD_INPUT = "-"

MAX_LINE = 256 * 2**20
"""Longest line that is read, in bytes; a Collector's batch of 8,192 spans is about 12 MiB."""

_Reader: TypeAlias = "io.BufferedReader[Any]"

_GZIP = b"\x1f\x8b"
_ZSTANDARD = b"\x28\xb5\x2f\xfd"


class InputError(Exception):
    """A file cannot be read, or not to its end; the message says which and why."""


class Line(NamedTuple):
    """One line as it stands in the file, counted from 1; None is one that is too long."""

    number: int
    content: bytes | None


def size_of(path: str) -> int:
    """Return the bytes of a file, 0 where that cannot be told."""
    try:
        return 0 if path == STANDARD_INPUT else Path(path).stat().st_size
    except OSError:
        return 0


def lines(path: str, on_position: Callable[[int], None], *, max_line: int = MAX_LINE) -> Iterator[Line]:
    """Yield the lines of a file, plain or gzip by its first bytes; `-` is standard input.

    `on_position` is told how many bytes of the file were read. Raise InputError, also when the end is cut off.
    """
    try:
        with _opened(path) as file:
            content = _unpacked(path, file)
            for number, line in enumerate(_bounded_lines(content, max_line), start=1):
                if file.seekable():
                    on_position(file.tell())
                yield Line(number, line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: the gzip stream is cut off or damaged; what came before is in the report") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


@contextmanager
def _opened(path: str) -> Iterator[_Reader]:
    if path == STANDARD_INPUT:
        if sys.stdin is None:
            raise InputError(f"{path}: standard input is closed")
        wrapped: _Reader = io.BufferedReader(sys.stdin.buffer)  # which may lack `peek` where it is no pipe
        try:
            yield wrapped
        finally:
            wrapped.detach()  # else it would close standard input
        return
    with Path(path).open("rb") as file:
        yield file


def _unpacked(path: str, file: _Reader) -> BinaryIO:
    begin = file.peek(len(_ZSTANDARD))[: len(_ZSTANDARD)]
    if begin.startswith(_ZSTANDARD):
        raise InputError(f"{path}: compressed with zstd, which is not read; unpack it first, or pipe it in: zstdcat")
    return gzip.GzipFile(fileobj=file) if begin.startswith(_GZIP) else file  # type: ignore[return-value]  # reads bytes


def _bounded_lines(content: BinaryIO, max_line: int) -> Iterator[bytes | None]:
    while line := content.readline(max_line):
        if len(line) < max_line or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = content.readline(max_line)
        yield None
