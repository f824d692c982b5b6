"""Kubernetes quantities, read exactly.

The grammar is that of Kubernetes' `resource.Quantity`: an optional sign, digits with at most one dot (leading zeros,
a leading and a trailing dot are allowed), then nothing, a suffix, or `e`/`E` with a signed decimal exponent.
`1E` is one exa, `1E3` is a thousand.
"""

import re
from dataclasses import dataclass
from decimal import Context, Decimal, FloatOperation, Inexact, InvalidOperation, Overflow, Underflow
from enum import StrEnum

MAX_TEXT_LENGTH = 256
"""Longest text that is read; any real quantity is far shorter, and the plain form of every value fits."""

MAX_DIGITS = 64
MAX_EXPONENT = 100
"""Bounds on a value: 64 significant digits times 10^-100 to 10^100. Within them no float overflows or underflows."""

MAX_COUNT = 2**53
"""Largest count: up to here every reader of telemetry keeps integers exact, and a sum of a few fits 64 bits."""

_SHAPE = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FACTORS = {
    **{suffix: Decimal(f"1e{power}") for suffix, power in _DECIMAL_POWERS.items()},
    **{suffix: Decimal(2**power) for suffix, power in _BINARY_POWERS.items()},
}
_SURELY_WITHIN = MAX_DIGITS - 19
"""A text of this length keeps within the bounds with any suffix, since no suffix adds more than 19 digits."""

# The widest value is a text of 256 digits times 2^60; the traps turn any rounding into an error instead of a guess.
_EXACT = Context(prec=MAX_TEXT_LENGTH + 19, traps=[Inexact, InvalidOperation, Overflow, Underflow, FloatOperation])


class QuantityError(StrEnum):
    """Why a text or a value is no usable quantity."""

    MALFORMED = "malformed"
    """Outside the grammar."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """Longer, larger or finer than any real quantity."""
    NOT_A_COUNT = "not_a_count"
    """A value that counts nothing: a fraction, a negative, or more than `MAX_COUNT`."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """One exact value, made by `parse_quantity`; its text is the plain decimal form, which parses back to it."""

    value: Decimal

    def __str__(self) -> str:
        return f"{self.value:f}"

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the exact sum; the span between the bounds leaves no digit without room."""
        return Quantity(_EXACT.add(self.value, other.value))

    def to_cores(self) -> float:
        """Return CPU cores, correctly rounded."""
        return float(self.value)

    def to_mebibytes(self) -> float:
        """Return MiB of a quantity of bytes, correctly rounded."""
        return float(self.value) / 2**20  # dividing by a power of two moves the exponent alone, so nothing rounds twice

    def to_gibibytes(self) -> float:
        """Return GiB of a quantity of bytes, correctly rounded."""
        return float(self.value) / 2**30

    def to_count(self) -> int | QuantityError:
        """Return a count of whole things; a fraction or a negative is none."""
        if not 0 <= self.value <= MAX_COUNT or self.value != int(self.value):
            return QuantityError.NOT_A_COUNT
        return int(self.value)


def parse_quantity(text: str) -> Quantity | QuantityError:
    """Return the exact value of a quantity's text, or why it is none. Never raises; its cost is bounded."""
    if len(text) > MAX_TEXT_LENGTH:
        return QuantityError.OUT_OF_BOUNDS
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return QuantityError.MALFORMED
    number, suffix, exponent = shape.groups()
    value = Decimal(number)
    if suffix:
        value = _EXACT.multiply(value, _FACTORS[suffix])
    elif exponent:
        if abs(int(exponent)) > MAX_TEXT_LENGTH + MAX_EXPONENT:  # not even 256 digits bring it back within the bounds
            return QuantityError.OUT_OF_BOUNDS
        value = _EXACT.scaleb(value, int(exponent))
    value = _EXACT.normalize(value)
    if value.is_zero():
        return Quantity(Decimal(0))  # without the sign that "-0" would leave
    if len(text) > _SURELY_WITHIN or exponent:
        parts = value.as_tuple()
        if len(parts.digits) > MAX_DIGITS or abs(int(parts.exponent)) > MAX_EXPONENT:
            return QuantityError.OUT_OF_BOUNDS
    return Quantity(value)
