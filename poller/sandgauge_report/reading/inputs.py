"""All spans of several files, and an account of what was read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sandgauge_report.reading.documents import Unreadable, documents
from sandgauge_report.reading.files import InputError, lines
from sandgauge_report.reading.otlp import NotTracesError, Span, spans

MOST_NAMED = 20
"""Unreadable lines that are named; more are counted."""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is not in the report, and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(slots=True)
class Account:
    """What was read so far. `unread` are files that could not be opened, or not read to their end."""

    files: list[str] = field(default_factory=list)
    """Files of which something was read, or that are empty."""
    unread: list[str] = field(default_factory=list)
    spans: int = 0
    """Sandbox and rollout spans, repeats included."""
    bad_line_count: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    """The first few of them."""

    def add_bad_line(self, bad: BadLine) -> None:
        """Count a line, and name it if few were named so far."""
        self.bad_line_count += 1
        if len(self.bad_lines) < MOST_NAMED:
            self.bad_lines.append(bad)


def ignore(position: int) -> None:
    """Take no notice of how far a reading is."""
    del position


def read_files(paths: Sequence[str], account: Account, on_position: Callable[[int], None] = ignore) -> Iterator[Span]:
    """Yield the spans of all files one after another; `on_position` is told the bytes read of all of them."""
    done = 0
    for path in paths:
        at = 0

        def tell(position: int, before: int = done) -> None:
            nonlocal at
            at = position
            on_position(before + position)

        try:
            yield from _read_file(path, account, tell)
        except InputError as error:
            account.unread.append(str(error))
        done += at


def _read_file(path: str, account: Account, on_position: Callable[[int], None]) -> Iterator[Span]:
    found = documents(lines(path, on_position))
    is_open = False
    try:
        for document in found:
            is_open = True
            if isinstance(document, Unreadable):
                account.add_bad_line(BadLine(path, document.line, document.reason))
                continue
            try:
                for span in spans(document.content):
                    account.spans += 1
                    yield span
            except NotTracesError as error:
                account.add_bad_line(BadLine(path, document.line, str(error)))
        is_open = True
    finally:
        if is_open:
            account.files.append(path)
