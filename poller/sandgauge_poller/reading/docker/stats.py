"""What Docker's stats answer says of one container, on either version of control groups."""

from collections.abc import Mapping
from typing import Any

from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.times import read_time
from sandgauge_poller.reading.usage.source import UsageObservation
from sandgauge_schemas.names import ErrorType

_MEBIBYTE = 2**20
_MOST = 2**63
"""Above every number of nanoseconds or bytes that a container can have used."""


def parse_stats(body: bytes, container_id: str) -> UsageObservation | ErrorType:
    """Return the numbers of a one-shot answer, or why there are none.

    The container that is asked for has to be the one that answers: Docker finds containers by name, too, and a name
    can be the digits of another's id. Docker 24.0.7 and newer do not say which one answers (measured on 28.5.2): they
    find a whole id before any name.
    """
    answer = parse_object(body)
    if answer is None:
        return ErrorType.UNRECOGNIZED_FORMAT
    if answer.get("id", container_id) != container_id:
        return ErrorType.NOT_FOUND
    cpu, memory = _section(answer, "cpu_stats"), _section(answer, "memory_stats")
    read_ns = read_time(answer.get("read"))
    cpu_time_ns = _amount(_section(cpu, "cpu_usage"), "total_usage")
    if read_ns is None or cpu_time_ns is None:
        return ErrorType.UNRECOGNIZED_FORMAT
    if not memory or read_ns < 0:
        return ErrorType.NO_READING  # what does not run answers too: with zeros, and the year 1
    return UsageObservation(
        timestamp_ns=read_ns,
        cpu_time_s=cpu_time_ns / 1e9,
        cpu_throttled_s=_throttled_s(_section(cpu, "throttling_data")),
        memory_working_set_mib=_working_set_mib(memory),
    )


def _throttled_s(throttling: Mapping[str, Any]) -> float | None:
    """Return for how long a limit held the container back; None without a limit, of which no period is counted."""
    throttled_ns = _amount(throttling, "throttled_time")
    return throttled_ns / 1e9 if throttled_ns is not None and _amount(throttling, "periods") else None


def _working_set_mib(memory: Mapping[str, Any]) -> float | None:
    """Return memory without the page cache that can be let go at once; None where it is not told apart."""
    stats = _section(memory, "stats")
    usage = _amount(memory, "usage")
    # Version 1 of control groups tells both, the one without children; version 2 has only the shorter name.
    inactive = _amount(stats, "total_inactive_file")
    if inactive is None:
        inactive = _amount(stats, "inactive_file")
    # The two are not read at the same instant.
    return None if usage is None or inactive is None else max(0, usage - inactive) / _MEBIBYTE


def _section(answer: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = answer.get(key)
    return section if isinstance(section, dict) else {}


def _amount(section: Mapping[str, Any], key: str) -> int | None:
    value = section.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None
