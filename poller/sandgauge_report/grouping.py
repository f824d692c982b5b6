"""Rows of a report: sandboxes put together by rollout, task, run or provider, or each by itself."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from sandgauge_report.merging.distinct import DistinctReadings
from sandgauge_report.merging.quantities import SeriesKey
from sandgauge_report.merging.sandboxes import Creation, Sandbox, Series, preference
from sandgauge_report.merging.series import PERCENT
from sandgauge_report.sizing import Advice, advise
from sandgauge_schemas.names import Resource
from sandgauge_schemas.resources import SandboxResourceAmounts


class By(StrEnum):
    """What a row stands for."""

    ROLLOUT = "rollout"
    TASK = "task"
    RUN = "run"
    PROVIDER = "provider"
    SANDBOX = "sandbox"

    @property
    def is_of_alike(self) -> bool:
        """Whether the sandboxes of a row have something in common, so that one advice can be for all of them."""
        return self not in (By.RUN, By.PROVIDER)


class Side(StrEnum):
    """The quantities that are amounts of a sandbox's shape."""

    REQUESTED = "requested"
    SUBMITTED_LIMITS = "submitted_limits"
    SUBMITTED_REQUESTS = "submitted_requests"
    ALLOCATED_LIMITS = "allocated_limits"
    ALLOCATED_REQUESTS = "allocated_requests"


@dataclass(frozen=True, slots=True)
class Total:
    """An amount added up over sandboxes: `known` of `of` state it."""

    sum: float
    known: int
    of: int


@dataclass(frozen=True)
class Row:
    """Sandboxes that a report shows together. Ids are None where they differ, or are not known."""

    by: By
    sandboxes: tuple[Sandbox, ...]

    @property
    def run_id(self) -> str | None:
        """Run of all of them."""
        return _common(one.run_id for one in self.sandboxes)

    @property
    def task(self) -> str | None:
        """Task of all of them."""
        return _common(one.task for one in self.sandboxes)

    @property
    def rollout_id(self) -> str | None:
        """Rollout of all of them."""
        return _common(one.rollout_id for one in self.sandboxes)

    @property
    def trace_id(self) -> str | None:
        """Trace of all of them."""
        return _common(one.trace_id for one in self.sandboxes)

    @property
    def provider(self) -> str | None:
        """Provider of all of them."""
        return _common(one.provider for one in self.sandboxes)

    @property
    def only(self) -> Sandbox | None:
        """The sandbox, where there is only one."""
        return self.sandboxes[0] if len(self.sandboxes) == 1 else None

    @cached_property
    def creations(self) -> Counter[Creation]:
        """How many sandboxes there are, and how many there were to be."""
        counts: Counter[Creation] = Counter()
        for one in self.sandboxes:
            counts[one.creation] += one.count
        return counts

    @cached_property
    def ends(self) -> Counter[str | None]:
        """How the created ones ended; None: no record says it."""
        return Counter(one.end for one in self._created)

    @property
    def lifetimes_s(self) -> list[float]:
        """Lifetimes that are known."""
        return [one.lifetime_s for one in self.sandboxes if one.lifetime_s is not None]

    @property
    def readings(self) -> int | None:
        """Readings of all of them; None where there is no record of any."""
        counts = [one.readings for one in self.sandboxes if one.readings is not None]
        return sum(counts) if counts else None

    @property
    def missed(self) -> int | None:
        """Readings that were due and failed, as summaries tell; None without a summary."""
        counts = [one.missed for one in self.sandboxes if one.missed is not None]
        return sum(counts) if counts else None

    @cached_property
    def failures(self) -> Counter[str]:
        """Failed readings in the input by error type."""
        counts: Counter[str] = Counter()
        for one in self.sandboxes:
            counts.update(one.failures)
        return counts

    def count(self, is_so: Callable[[Sandbox], bool | None]) -> int:
        """Return of how many created sandboxes something holds."""
        return sum(bool(is_so(one)) for one in self._created)

    def total(self, side: Side, resource: Resource) -> Total | None:
        """Add up an amount over the sandboxes; None where nobody states it."""
        shapes = self._shapes[side]
        stated = [
            (amount, count)
            for shape, count in shapes
            if (amount := getattr(shape, resource)) is not None and not isinstance(amount, str)
        ]
        if not stated:
            return None
        return Total(
            sum=sum(amount * count for amount, count in stated),
            known=sum(count for _, count in stated),
            of=sum(count for _, count in shapes),
        )

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """Statistics over all readings of one quantity, source and scope; the preferred first."""
        together: defaultdict[SeriesKey, list[Series]] = defaultdict(list)
        for one in self.sandboxes:
            for series in one.series:
                together[series.key].append(series)
        return tuple(sorted(map(_pooled, together.values()), key=preference))

    def preferred(self, resource: Resource) -> Series | None:
        """Return the readings that say most of a resource's use."""
        return next((series for series in self.series if series.key.quantity.resource is resource), None)

    def sandboxes_with(self, key: SeriesKey) -> int:
        """Return how many sandboxes there are readings of."""
        return sum(any(series.key == key for series in one.series) for one in self.sandboxes)

    def share_of_limit(self, key: SeriesKey) -> float | None:
        """Return the highest reading as a share of its sandbox's limit, of the sandbox that came closest to it."""
        shares = [
            series.max / limit
            for one in self.sandboxes
            for series in one.series
            if series.key == key and (limit := one.limit_of(series)) is not None
        ]
        return max(shares, default=None)

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """What one sandbox of these could be reserved, of CPU and of memory, in view of all their readings.

        There is none for sandboxes that may have nothing in common.
        """
        if not self.by.is_of_alike:
            return ()
        return tuple(self._advice(resource) for resource in (Resource.CPU, Resource.MEMORY_MIB))

    def _advice(self, resource: Resource) -> Advice:
        preferred = self.preferred(resource)
        reserved = [
            amount
            for one in self.sandboxes
            for series in one.series
            if preferred is not None and series.key == preferred.key and (amount := one.reserved_for(series))
        ]
        return advise(resource, max(reserved, default=None), preferred)

    @cached_property
    def _created(self) -> tuple[Sandbox, ...]:
        return tuple(one for one in self.sandboxes if one.creation is Creation.CREATED)

    @cached_property
    def _shapes(self) -> dict[Side, list[tuple[SandboxResourceAmounts, int]]]:
        """The shapes that each side states, and of how many sandboxes."""
        return {
            side: [(shape_of(one), one.count) for one in (self.sandboxes if side is Side.REQUESTED else self._created)]
            for side, shape_of in _SIDES.items()
        }


def rows_of(sandboxes: Sequence[Sandbox], by: By) -> tuple[Row, ...]:
    """Put sandboxes together, in the order in which the first of each came."""
    if by is By.SANDBOX:
        return tuple(Row(by, (one,)) for one in sandboxes)
    groups: dict[tuple[str | None, ...], list[Sandbox]] = {}
    for one in sandboxes:
        groups.setdefault(_key(one, by), []).append(one)
    return tuple(Row(by, tuple(group)) for group in groups.values())


def _key(one: Sandbox, by: By) -> tuple[str | None, ...]:
    """Return what a row has in common. A rollout id alone is no key: it repeats between runs."""
    match by:
        case By.ROLLOUT if one.run_id is None or one.rollout_id is None:
            return one.run_id, one.rollout_id, one.trace_id
        case By.ROLLOUT:
            return one.run_id, one.rollout_id
        case By.TASK:
            return one.run_id, one.task
        case By.RUN:
            return (one.run_id,)
        case _:
            return (one.provider,)


_NOTHING = SandboxResourceAmounts()
_SIDES: dict[Side, Callable[[Sandbox], SandboxResourceAmounts]] = {
    Side.REQUESTED: lambda one: one.requested or _NOTHING,
    Side.SUBMITTED_LIMITS: lambda one: one.submission.limits if one.submission else _NOTHING,
    Side.SUBMITTED_REQUESTS: lambda one: one.submission.requests if one.submission else _NOTHING,
    Side.ALLOCATED_LIMITS: lambda one: one.total.limits,
    Side.ALLOCATED_REQUESTS: lambda one: one.total.requests,
}


def _common(values: Iterator[str | None] | Iterable[str | None]) -> str | None:
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _pooled(parts: list[Series]) -> Series:
    """Return the statistics of all readings of one key together."""
    if len(parts) == 1:
        return parts[0]
    readings = DistinctReadings()
    for part in parts:
        if part.sample is not None:
            readings.absorb(part.sample)
    counts = [part.readings for part in parts if part.readings is not None]
    are_counted = len(counts) == len(parts)
    weights = [part.readings or 0 for part in parts] if are_counted else [1] * len(parts)
    firsts = [part.first_ns for part in parts if part.first_ns is not None]
    lasts = [part.last_ns for part in parts if part.last_ns is not None]
    return Series(
        key=parts[0].key,
        readings=sum(counts) if are_counted else None,
        is_exact=readings.is_exact and all(part.is_exact for part in parts),
        min=min(part.min for part in parts),
        mean=sum(part.mean * weight for part, weight in zip(parts, weights, strict=True)) / (sum(weights) or 1),
        p95=readings.percentile(PERCENT) if readings.count else None,
        max=max(part.max for part in parts),
        last=max(parts, key=lambda part: part.last_ns or 0).last,
        first_ns=min(firsts, default=None),
        last_ns=max(lasts, default=None),
        sample=readings if readings.count else None,
    )
