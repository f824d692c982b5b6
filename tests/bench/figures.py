"""The figures of a measurement, and how they follow from what was seen."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from bench.deliveries import Reading


class Subject(StrEnum):
    """What reads the fleet."""

    POLLER = "poller"
    FLOOR = "floor"
    """A bare aiohttp loop that makes the same reads, and no telemetry."""
    ALTERNATIVE = "alternative"
    """A pool of threads with requests, the SDK's spans and observable gauges."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of so many values; in the unit of the figure."""

    count: int
    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Quantiles | None":
        """Return them by the nearest rank; None of nothing."""
        ordered = sorted(values)
        if not ordered:
            return None
        ranks = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.99))
        return cls(len(ordered), *(round(value, 6) for value in (*ranks, ordered[-1])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One window of a subject in the steady state; None is what a subject has not.

    `cadence_s`: from start to start of successive readings of a sandbox. `missed_share`: of the ticks that were due.
    `accepted_s`: from the end of a reading to the Collector's answer. `hang_s`: how long reads of a daemon that never
    answers took. `hanging_share`: of the sandboxes; all figures but CPU and `hang_s` are those of the others.
    `first_sample_s`: from before a start span was sent to when the Collector had the sandbox's first sample.
    Shares of threads are of the process's CPU. `waited_share`: of the time, its main thread was ready and had no core;
    more than a little says that the machine was not quiet.
    """

    subject: Subject
    sandboxes: int
    interval_s: float
    hanging_share: float
    uvloop: bool
    reads: int
    cpu_ms_a_read: float
    fleet_cpu_ms_a_read: float
    core_share: float
    rss_mib: float
    rss_kb_a_sandbox: float | None = None
    questions: int = 0
    cadence_s: Quantiles | None = None
    missed_share: float | None = None
    accepted_s: Quantiles | None = None
    hang_s: Quantiles | None = None
    first_sample_s: Quantiles | None = None
    bytes_a_reading: float | None = None
    stored_bytes_a_reading: float | None = None
    open_files: int | None = None
    writer_share: float | None = None
    delivery_share: float | None = None
    waited_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """Spans that came as fast as they were taken."""

    what: str
    encoding: str
    spans: int
    spans_a_second: float
    cpu_us_a_span: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Requests of one lifecycle span each, every one answered after its commit."""

    connections: int
    requests: int
    requests_a_second: float
    answer_s: Quantiles | None
    cpu_ms_a_request: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """After kill -9: seconds from the new start until it took spans in, and until all had been read again."""

    sandboxes: int
    ready_s: float
    all_read_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """One minute of a long run; `started` counts sandboxes so far, `health_s` answers of `/healthz` each 20 ms.

    `waited_share` is as in Steady. Of the heartbeat on the poller's loop: `lag_s` is how late its beats were, `held_s`
    how long of that the loop's own thread was computing at most, `held_by_process_s` the same of all its threads, and
    `collected_s` how long looks for garbage took.
    """

    minute: int
    started: int
    reads: int
    cpu_ms_a_read: float
    core_share: float
    rss_mib: float
    open_files: int
    threads: int
    tasks: int
    health_s: Quantiles | None
    cadence_s: Quantiles | None
    accepted_s: Quantiles | None
    waited_share: float | None = None
    lag_s: Quantiles | None = None
    held_s: Quantiles | None = None
    held_by_process_s: Quantiles | None = None
    collected_s: Quantiles | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A late beat of the loop: `at_s` since the run began; shares of it as in Minute.

    `calls`: where the loop's thread was in the middle of that time, as far as it was looked for; innermost last.
    """

    at_s: float
    lag_s: float
    held_s: float
    held_by_process_s: float
    collected_s: float
    calls: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Cadence:
    """Intervals between the starts of a sandbox's readings, and how many of the ticks that were due had no good one."""

    intervals_s: Sequence[float]
    missed_share: float | None


def cadence_of(readings: Iterable[Reading], interval_s: float, *, since_ns: int = 0) -> Cadence:
    """Return it for readings that began `since_ns` and the intervals up to them, which may have begun before.

    A gap of k intervals is k - 1 missed ticks, and a failed reading is one.
    """
    starts: dict[str, list[int]] = defaultdict(list)
    failed = 0
    for reading in readings:
        starts[reading.sandbox_id].append(reading.start_ns)
        failed += reading.error_type is not None and reading.start_ns >= since_ns
    intervals, skipped, read = [], 0, 0
    for times in starts.values():
        read += sum(time >= since_ns for time in times)
        for earlier, later in pairwise(sorted(times)):
            if later >= since_ns:
                intervals.append((later - earlier) / 1e9)
                skipped += max(0, round(intervals[-1] / interval_s) - 1)
    due = read + skipped
    return Cadence(intervals, (skipped + failed) / due if due else None)
