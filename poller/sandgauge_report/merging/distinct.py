"""Statistics of the readings of one series, in bounded memory; order and repeats make no difference.

A bottom-k sample: of all readings the K whose hashed span ids are smallest, which is a uniform sample without
replacement of the distinct ones. Up to K readings everything is exact. Beyond, minimum, maximum and last are still
exact; mean and percentile are those of the sample, and the count is the k-minimum-values estimate (K-1)/h, where h is
the K-th smallest hash as a fraction of all hashes. With K = 512 the count is off by 4 % (one standard error), and a
95th percentile lies between the true 93rd and 97th in 95 of 100 cases.
"""

import math
from array import array
from bisect import bisect_left
from hashlib import blake2b

K = 512
"""Readings of which everything is exact: 85 minutes at an interval of 10 s. Each takes 16 bytes."""

_HASHES = 2.0**64
_HASH_BYTES = 8


def hash_of(trace_id: str, span_id: str) -> int:
    """Return 64 bits that are the same for each repeat of a span, and else as good as random."""
    return int.from_bytes(blake2b(f"{trace_id} {span_id}".encode(), digest_size=_HASH_BYTES).digest())


class DistinctReadings:
    """Readings by the hash of their span; a value that came with an id before is no reading of its own."""

    __slots__ = ("_hashes", "_last", "_overflowed", "_values", "first_ns", "last_ns", "max", "min")

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._values = array("d")
        self._overflowed = False
        self._last: tuple[int, int, float] = (-1, -1, math.nan)
        self.min, self.max = math.inf, -math.inf
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def add(self, hashed: int, at_ns: int, value: float) -> None:
        """Take one reading; `at_ns` 0 is a time that nobody gave."""
        self.min = min(self.min, value)
        self.max = max(self.max, value)
        if (last := (at_ns, hashed, value)) > self._last:
            self._last = last
        if at_ns:
            self._extend_window(at_ns, at_ns)
        self._sample(hashed, value)

    def absorb(self, other: "DistinctReadings") -> None:
        """Take over what another has seen: the result is that of all readings of both."""
        self.min, self.max = min(self.min, other.min), max(self.max, other.max)
        self._last = max(self._last, other._last)  # noqa: SLF001 - of its own kind
        if other.first_ns is not None and other.last_ns is not None:
            self._extend_window(other.first_ns, other.last_ns)
        self._overflowed = self._overflowed or other._overflowed  # noqa: SLF001 - of its own kind
        for hashed, value in zip(other._hashes, other._values, strict=True):  # noqa: SLF001 - of its own kind
            self._sample(hashed, value)

    @property
    def is_exact(self) -> bool:
        """Whether count, mean and percentile are of all readings and no estimates."""
        return not self._overflowed

    @property
    def count(self) -> int:
        """How many distinct readings there were."""
        if self.is_exact or not self._hashes:
            return len(self._hashes)
        return round((len(self._hashes) - 1) / (self._hashes[-1] / _HASHES))

    @property
    def mean(self) -> float:
        """Mean of the sample; there must be a reading."""
        return math.fsum(self._values) / len(self._values)

    @property
    def last(self) -> float:
        """The latest reading; there must be one."""
        return self._last[2]

    def percentile(self, percent: float) -> float:
        """Return the nearest-rank percentile of the sample; there must be a reading."""
        ordered = sorted(self._values)
        return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]

    def _sample(self, hashed: int, value: float) -> None:
        hashes = self._hashes
        if len(hashes) == K and hashed > hashes[-1]:
            self._overflowed = True
            return
        index = bisect_left(hashes, hashed)
        if index < len(hashes) and hashes[index] == hashed:
            self._values[index] = max(self._values[index], value)
            return
        hashes.insert(index, hashed)
        self._values.insert(index, value)
        if len(hashes) > K:
            hashes.pop()
            self._values.pop()
            self._overflowed = True

    def _extend_window(self, first_ns: int, last_ns: int) -> None:
        if self.first_ns is None or first_ns < self.first_ns:
            self.first_ns = first_ns
        if self.last_ns is None or last_ns > self.last_ns:
            self.last_ns = last_ns
