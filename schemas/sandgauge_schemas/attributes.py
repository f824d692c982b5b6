"""Reading span attributes: a value of the wrong type counts as absent, since spans come from anywhere."""

import math
from collections.abc import Mapping, Sequence

AttributeValue = str | bool | int | float | Sequence[str]
"""What an attribute of this contract can hold."""

Attributes = Mapping[str, AttributeValue]
"""Attributes of one span or data point."""


def text(attributes: Attributes, key: str) -> str | None:
    """Return a non-empty string, else None."""
    value = attributes.get(key)
    return value if isinstance(value, str) and value else None


def flag(attributes: Attributes, key: str) -> bool | None:
    """Return a bool, else None."""
    value = attributes.get(key)
    return value if isinstance(value, bool) else None


def whole(attributes: Attributes, key: str) -> int | None:
    """Return an int (a bool is none), else None."""
    value = attributes.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(attributes: Attributes, key: str) -> float | None:
    """Return a finite number as it came, int or float (a bool is none), else None."""
    value = attributes.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:  # an int beyond every double
        return None


def texts(attributes: Attributes, key: str) -> tuple[str, ...]:
    """Return the strings of a list, else an empty tuple."""
    value = attributes.get(key)
    if isinstance(value, str) or not isinstance(value, Sequence):
        return ()
    items: Sequence[object] = value  # a sender may mix types in a list
    return tuple(item for item in items if isinstance(item, str))
