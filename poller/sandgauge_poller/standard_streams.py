"""Standard output and standard error, whether somebody reads them or not: closed, full, or left by their reader."""

import io
import os
import sys
from typing import Any, TextIO

import click

_STDIN, _STDOUT, _STDERR = range(3)


class OutputError(click.ClickException):
    """Standard output takes nothing; the message says why."""


class _Output(io.FileIO):
    """Standard output. A reader that goes away, as `head` does, has seen enough: the rest goes nowhere."""

    _goes_nowhere = False

    def write(self, data: Any, /) -> int:
        """Write bytes; raise OutputError the first time that it is impossible."""
        if self._goes_nowhere:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._goes_nowhere = True  # what is still in a buffer is tried again at the end
            if isinstance(error, BrokenPipeError):
                return memoryview(data).nbytes
            raise OutputError(f"standard output: {error.strerror}; make room, or send it elsewhere") from error


class _Errors(io.FileIO):
    """Standard error. There is nowhere to complain of it, so what it does not take is lost."""

    def write(self, data: Any, /) -> int:
        """Write bytes if that is possible."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def guard_standard_streams() -> None:
    """Let no command care for how its output ends, so that its exit code stays the documented one.

    A closed stream becomes one that goes nowhere. Else the next file that is opened would stand in its place, and get
    what is meant for it.
    """
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free
    sys.stdout = _like(sys.stdout, _Output(_STDOUT, "w", closefd=False))
    sys.stderr = _like(sys.stderr, _Errors(_STDERR, "w", closefd=False))


def _like(before: Any, raw: io.FileIO) -> TextIO:
    """Return a stream of text like the one before; that is None where Python found it closed."""
    before = before or io.TextIOWrapper(io.BytesIO())
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
