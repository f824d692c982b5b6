"""A span as it is recorded: whole, since the emitter learns of everything when it is over."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandgauge_schemas.attributes import AttributeValue

SCOPE_NAME = "sandgauge_emitter"
"""The instrumentation scope of every span."""

# OpenTelemetry's own names of a failure, not of this project's contract.
EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSpan:
    """A span that has ended when it is made; times in ns since the epoch. With an error type it has failed."""

    name: str
    attributes: Mapping[str, AttributeValue]
    start_ns: int
    end_ns: int
    error_type: str | None = None
