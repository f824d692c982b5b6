"""Which readings were missed: due and not read while the sandbox was alive. Pure; times in ns since the epoch."""

import math
from collections.abc import Iterable


def skipped(next_due: float | None, due: float, interval: float) -> int:
    """Return how many readings were due before one that is tried (seconds of one clock); `next_due` is the first."""
    return 0 if next_due is None else max(0, round((due - next_due) / interval))


def due_until(next_due: float, end: float, interval: float) -> int:
    """Return how many readings were due from `next_due` to the end (seconds of one clock)."""
    return max(0, math.floor((end - next_due) / interval) + 1)


def taken_back(
    failed_ns: Iterable[int], last_good_ns: int | None, doomed_ns: int, interval: float, *, resumed_ns: int = 0
) -> int:
    """Return how many of the readings that failures in a row left missed were due when the sandbox was ending.

    `failed_ns`: when each began, since the good one at `last_good_ns`; those that were put off before each count too,
    but nothing was due before `resumed_ns`, when the readings began anew.
    """
    count, before_ns, interval_ns = 0, last_good_ns, interval * 1e9
    for began_ns in failed_ns:
        if before_ns is not None and before_ns < resumed_ns <= began_ns:
            before_ns = None
        missed = 1 if before_ns is None else max(1, round((began_ns - before_ns) / interval_ns))
        count += max(0, min(missed, math.floor((began_ns - doomed_ns) / interval_ns) + 1))
        before_ns = began_ns
    return count
