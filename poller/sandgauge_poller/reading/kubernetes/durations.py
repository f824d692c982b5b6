"""Durations as Go writes them, such as `15.003s` and `1m0.5s`."""

import re
from decimal import Decimal

_MAX_LENGTH = 64
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_DURATION = re.compile(rf"(?:{_NUMBER}(?:ns|us|µs|μs|ms|s|m|h))+")  # Go writes one sign of micro, and takes both
_PART = re.compile(rf"({_NUMBER})([a-zµμ]+)")
_SECONDS = {
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "μs": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
}


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration without a sign, or None where the text is none."""
    if text == "0":
        return 0.0
    if len(text) > _MAX_LENGTH or not _DURATION.fullmatch(text):
        return None
    return float(sum(Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
