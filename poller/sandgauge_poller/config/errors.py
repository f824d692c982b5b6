"""Faults of a configuration: where, what, and how to cure it. No message ever holds a configured value."""

from collections.abc import Iterable
from dataclasses import dataclass

KeyPath = tuple[str | int, ...]
"""Way to a key from the top of the file: names of keys and positions in lists."""


class InvalidValueError(ValueError):
    """Why a value cannot stand, and what to write instead; neither text may quote the value, which may be a secret.

    `below` leads from the checked section to the key that is meant.
    """

    def __init__(self, reason: str, cure: str, below: KeyPath = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cure = cure
        self.below = below


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong or odd at a place whose line is not looked up yet."""

    path: KeyPath
    reason: str
    cure: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What is said about one key; `line` counts from 1, `key` is empty where the whole file is meant."""

    file: str
    line: int
    key: str
    reason: str
    cure: str

    def __str__(self) -> str:
        """Return `file:line: key: reason; cure`, the form that editors and other tools jump to."""
        place = f"{self.file}:{self.line}: {self.key}: " if self.key else f"{self.file}:{self.line}: "
        return f"{place}{self.reason}; {self.cure}"


class ConfigError(Finding):
    """A fault that keeps the poller from starting."""

    __slots__ = ()


class ConfigWarning(Finding):
    """An oddity that the poller can live with."""

    __slots__ = ()


class ConfigErrors(Exception):  # noqa: N818  # it holds many errors, and its name says so
    """Every fault of one configuration, in the order of the file."""

    def __init__(self, errors: Iterable[ConfigError]) -> None:
        self.errors = tuple(sorted(errors, key=lambda error: error.line))
        super().__init__(render(self.errors))


def render(findings: Iterable[Finding]) -> str:
    """Return one line for each finding."""
    return "\n".join(str(finding) for finding in findings)
