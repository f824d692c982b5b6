"""What execd's `/metrics` answer says. Any process of the sandbox may have written it: its numbers are claims.

A genuine daemon writes five plain JSON numbers. So a number that cannot be true makes the whole answer doubtful
and fails the reading, while a field that is missing or null just is not told.
"""

import json
from typing import Any

from sandgauge_poller.reading.provider import Usage
from sandgauge_schemas.names import ErrorType

_MAX_CPU_COUNT = 2.0**16
"""Far more than the 8,192 CPUs that Linux can address."""
_MAX_MEMORY_MIB = 2.0**44
"""A 64-bit address space. Sums over many readings stay finite, too."""
_MAX_PERCENTAGE = 100.001
"""A hair above 100 is rounding inside the daemon, and is taken as 100."""
_MAX_TIMESTAMP_MS = 2**63 - 1


class _ImpossibleValueError(Exception):
    """A field that is told and cannot be true."""


def parse_metrics(body: bytes) -> Usage | ErrorType:
    """Return the numbers of one whole body with status 200, or why it holds none. Never raises.

    `unrecognized_format`: no strict JSON object (UTF-8, no key twice). `invalid_value`: a number of another type, not
    finite, negative, out of range, or more memory used than there is. `no_reading`: no number at all, or a memory total
    of zero, which is what a daemon without `/proc` answers.

    The timestamp, in ms since the epoch, is returned unchanged, plausible or not: seconds taken for milliseconds stand
    out by their distance to the reading's window. One that is no positive integer is left out: the numbers stand alone.
    """
    try:
        answer = _DECODER.decode(body.decode())
    except (ValueError, RecursionError):
        return ErrorType.UNRECOGNIZED_FORMAT
    if not isinstance(answer, dict):
        return ErrorType.UNRECOGNIZED_FORMAT
    try:
        return _usage(answer)
    except _ImpossibleValueError:
        return ErrorType.INVALID_VALUE


def _usage(answer: dict[str, Any]) -> Usage | ErrorType:
    percentage = _number(answer, "cpu_used_pct", _MAX_PERCENTAGE)
    total = _number(answer, "mem_total_mib", _MAX_MEMORY_MIB)
    used = _number(answer, "mem_used_mib", _MAX_MEMORY_MIB if total is None else total)
    cpu_count = _number(answer, "cpu_count", _MAX_CPU_COUNT)
    if total == 0 or (percentage, total, used, cpu_count) == (None, None, None, None):
        return ErrorType.NO_READING
    if cpu_count == 0:
        return ErrorType.INVALID_VALUE
    timestamp = answer.get("timestamp")
    return Usage(
        timestamp_ms=timestamp if type(timestamp) is int and 0 < timestamp <= _MAX_TIMESTAMP_MS else None,
        cpu_count=cpu_count,
        cpu_used_percentage=None if percentage is None else min(percentage, 100.0),
        memory_total_mib=total,
        memory_used_mib=used,
    )


def _number(answer: dict[str, Any], key: str, largest: float) -> float | None:
    value = answer.get(key)
    if value is None:
        return None
    # bool is an int to Python and none to JSON; NaN fails the comparison, and so does 1e400, which is read as infinity.
    if type(value) not in (int, float) or not 0 <= value <= largest:
        raise _ImpossibleValueError
    return abs(float(value))  # without the sign of -0.0


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    return members


# Made once: `loads` makes one for each answer, which takes as long as to read it.
_DECODER = json.JSONDecoder(object_pairs_hook=_unique)
