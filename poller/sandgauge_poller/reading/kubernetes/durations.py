"""Durations as Go writes them, such as `15.003s` and `1m0.5s`."""

import re

_MAX_LENGTH = 64
_DURATION = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+(?:\.[0-9]+)?)(ns|us|µs|μs|ms|s))?")
_SECONDS = {"ns": 1e9, "us": 1e6, "µs": 1e6, "μs": 1e6, "ms": 1e3, "s": 1.0}  # Go writes one sign of micro, takes both


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration without a sign, or None where the text is none."""
    found = _DURATION.fullmatch(text) if 0 < len(text) <= _MAX_LENGTH else None
    if found is None:
        return None
    hours, minutes, number, unit = found.groups()
    seconds = float(number) / _SECONDS[unit] if number else 0.0
    if hours or minutes:
        seconds += 3600.0 * int(hours or 0) + 60.0 * int(minutes or 0)
    return seconds
