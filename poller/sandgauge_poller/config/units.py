"""Durations and sizes as people write them: a number and its unit, never a bare number whose unit must be guessed."""

import re
from decimal import Decimal

from sandgauge_poller.config.errors import InvalidValueError

LONGEST_DURATION_S = 8760 * 3600
LARGEST_SIZE = 2**50
_SECOND_MS = 1000

_DURATION_UNITS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_DURATION = re.compile(
    r"(?:(?P<h>[0-9]{1,9}(?:\.[0-9]{1,3})?)h)?"
    r"(?:(?P<m>[0-9]{1,9}(?:\.[0-9]{1,3})?)m)?"
    r"(?:(?P<s>[0-9]{1,9}(?:\.[0-9]{1,3})?)s)?"
    r"(?:(?P<ms>[0-9]{1,9})ms)?"
)
_SIZE_UNITS = {
    "B": 1,
    **{f"{prefix}iB": 1024**power for power, prefix in enumerate("KMGT", start=1)},
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("kMGT", start=1)},
}
_SIZE = re.compile(r"(?P<number>[0-9]{1,16}(?:\.[0-9]{1,3})?)(?P<unit>[A-Za-z]{1,3})")
_WRITTEN_SIZE_UNITS = ("TiB", "GiB", "MiB", "KiB")
_BARE_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")

_DURATION_CURE = "write a number with its unit, such as 10s, 500ms, 5m or 1m30s (units: h, m, s, ms)"
_SIZE_CURE = "write a number with its unit, such as 20MiB (units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)"


def parse_duration(text: str) -> float:
    """Return the seconds that `text` stands for: `10s`, `500ms`, `5m`, `1m30s`, `1.5s`, or `0`.

    Units come in falling order, each at most once; the finest step is a millisecond, the longest time a year.

    Raises:
        InvalidValueError: `text` is no duration.

    """
    if text == "0":
        return 0.0
    if _BARE_NUMBER.fullmatch(text):
        raise InvalidValueError("has no unit", _DURATION_CURE)
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise InvalidValueError("is not a duration", _DURATION_CURE)
    parts = {unit: number for unit, number in match.groupdict().items() if number is not None}
    seconds = sum((Decimal(number) * _DURATION_UNITS[unit] for unit, number in parts.items()), Decimal(0))
    if seconds > LONGEST_DURATION_S:
        raise InvalidValueError("is longer than a year (8760h)", "write a shorter time, such as 10s")
    return float(seconds)


def format_duration(seconds: float) -> str:
    """Return `seconds` as `parse_duration` reads it, to the millisecond."""
    milliseconds = round(seconds * _SECOND_MS)
    if 0 < milliseconds < _SECOND_MS:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60 * _SECOND_MS)
    hours, minutes = divmod(minutes, 60)
    parts = [
        f"{hours}h" if hours else "",
        f"{minutes}m" if minutes else "",
        f"{rest / _SECOND_MS:.5g}s" if rest else "",
    ]
    return "".join(parts) or "0s"


def parse_size(text: str) -> int:
    """Return the bytes that `text` stands for: `20MiB`, `1.5GiB`, `500kB`; at least one byte, at most a pebibyte.

    Raises:
        InvalidValueError: `text` is no size.

    """
    if _BARE_NUMBER.fullmatch(text):
        raise InvalidValueError("has no unit", _SIZE_CURE)
    match = _SIZE.fullmatch(text)
    if match is None or match["unit"] not in _SIZE_UNITS:
        raise InvalidValueError("is not a size", _SIZE_CURE)
    size = Decimal(match["number"]) * _SIZE_UNITS[match["unit"]]
    if size != size.to_integral_value():
        raise InvalidValueError("is not a whole number of bytes", "write a smaller unit, such as 512KiB")
    if not 0 < size <= LARGEST_SIZE:
        raise InvalidValueError("must be more than zero and at most 1024TiB", _SIZE_CURE)
    return int(size)


def format_size(size: int) -> str:
    """Return `size` bytes as `parse_size` reads them, in the largest unit that holds them without a rest."""
    unit = next((unit for unit in _WRITTEN_SIZE_UNITS if size % _SIZE_UNITS[unit] == 0), "B")
    return f"{size // _SIZE_UNITS[unit]}{unit}"
