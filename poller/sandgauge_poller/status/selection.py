"""Which sandboxes are asked for, in which order, and which part of them: a query string, understood and applied."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any, TypeVar

from sandgauge_poller.reading.scope import memory_limit_mib
from sandgauge_poller.status.fleet import Fleet, began_ns, is_failing, is_leaked, last_reading_ns
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_schemas import names
from sandgauge_schemas.names import SandboxState

MOST_ROWS = 1000
"""Rows of one answer; more are asked for by `offset`."""

_Choice = TypeVar("_Choice", bound=StrEnum)
_Judge = Callable[[Tracked, Fleet, int], bool]
_Value = Callable[[Tracked, Fleet, int], Any]

_DIGITS = re.compile(r"\d+")


class Show(StrEnum):
    """Parts of the fleet: those in one state, and those that want a look."""

    ALL = "all"
    ACTIVE = SandboxState.ACTIVE.value
    PAUSED = SandboxState.PAUSED.value
    ENDING = SandboxState.ENDING.value
    UNMATCHED = SandboxState.UNMATCHED.value
    NOT_READ = SandboxState.NOT_READ.value
    LEAKED = "leaked"
    FAILING = "failing"
    LATE = "late"


class Sort(StrEnum):
    """What rows can be ordered by."""

    SANDBOX = "sandbox"
    ROLLOUT = "rollout"
    STATE = "state"
    AGE = "age"
    ALLOCATION = "allocation"
    CPU = "cpu"
    MEMORY = "memory"
    READ = "read"
    LATENESS = "lateness"


class Order(StrEnum):
    """The way up or down."""

    ASCENDING = "asc"
    DESCENDING = "desc"


def _natural(text: str) -> str:
    """Order digits by the number they make: rollout 10-0 comes after 9-0.

    As text, since the sort of a fleet gives the interpreter to no other thread, and tuples take ten times as long.
    """
    return _DIGITS.sub(_number, text)


def _number(digits: re.Match[str]) -> str:
    found = digits[0].lstrip("0")
    return chr(len(found)) + found


def _rollout(sandbox: Tracked, _fleet: Fleet, _now_ns: int) -> Any:
    keys = sandbox.keys
    return None if keys.rollout_id is None else (keys.run_id or "", _natural(keys.rollout_id))


def _cores(sandbox: Tracked, _fleet: Fleet, _now_ns: int) -> float | None:
    """Return the cores in use as last read, be they a node's: of a usage source, else of what the daemon sees."""
    cores = _last(sandbox, names.METRIC_GYM_SANDBOX_CPU_USED_CORES)
    if cores is not None:
        return cores
    percentage = _last(sandbox, names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE)
    count = _last(sandbox, names.METRIC_GYM_SANDBOX_CPU_COUNT)
    return None if percentage is None or count is None else percentage / 100 * count


def _memory(sandbox: Tracked, _fleet: Fleet, _now_ns: int) -> float | None:
    working_set_mib = _last(sandbox, names.METRIC_GYM_SANDBOX_MEMORY_WORKING_SET_MIB)
    return _last(sandbox, names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB) if working_set_mib is None else working_set_mib


def _last(sandbox: Tracked, metric: str) -> float | None:
    found = sandbox.progress.statistics.get(metric)
    return None if found is None else found.last


def _began(sandbox: Tracked, _fleet: Fleet, _now_ns: int) -> int | None:
    began = began_ns(sandbox)
    return None if began is None else -began


def _limit(sandbox: Tracked, _fleet: Fleet, _now_ns: int) -> float | None:
    allocation = sandbox.progress.allocation
    return memory_limit_mib(allocation.components) if allocation is not None else None


_VALUES: Mapping[Sort, _Value] = {
    Sort.SANDBOX: lambda sandbox, _fleet, _now_ns: _natural(sandbox.key.sandbox_id),
    Sort.ROLLOUT: _rollout,
    Sort.STATE: lambda sandbox, fleet, _now_ns: fleet.state(sandbox).value,
    Sort.AGE: _began,
    Sort.ALLOCATION: _limit,
    Sort.CPU: _cores,
    Sort.MEMORY: _memory,
    Sort.READ: lambda sandbox, _fleet, _now_ns: last_reading_ns(sandbox),
    Sort.LATENESS: lambda sandbox, fleet, now_ns: fleet.standing(sandbox, now_ns).lateness_s,
}
"""What rows are ordered by; None where there is nothing to order one by."""

_SHOWN: Mapping[Show, _Judge] = {
    Show.ALL: lambda _sandbox, _fleet, _now_ns: True,
    Show.LEAKED: lambda sandbox, _fleet, _now_ns: is_leaked(sandbox),
    Show.FAILING: lambda sandbox, _fleet, _now_ns: is_failing(sandbox),
    Show.LATE: lambda sandbox, fleet, now_ns: fleet.standing(sandbox, now_ns).is_late,
}


class SelectionError(ValueError):
    """A query that asks for what there is not; names the key and the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A part of the fleet: rows from `offset` on, at most `limit`."""

    text: str = ""
    show: Show = Show.ALL
    deployment: str | None = None
    sort: Sort = Sort.AGE
    order: Order = Order.ASCENDING
    offset: int = 0
    limit: int = 100

    def of(self, fleet: Fleet, now_ns: int) -> list[Tracked]:
        """Return every sandbox that is asked for, in order; of those that lack what they are sorted by, last."""
        value = _VALUES[self.sort]
        having: list[tuple[Any, Tracked]] = []
        lacking: list[Tracked] = []
        for sandbox in fleet:
            if self._includes(sandbox, fleet, now_ns):
                found = value(sandbox, fleet, now_ns)
                if found is None:
                    lacking.append(sandbox)
                else:
                    having.append((found, sandbox))
        having.sort(key=itemgetter(0), reverse=self.order is Order.DESCENDING)
        return [sandbox for _, sandbox in having] + lacking

    def _includes(self, sandbox: Tracked, fleet: Fleet, now_ns: int) -> bool:
        if self.deployment is not None and sandbox.deployment != self.deployment:
            return False
        shown = _SHOWN.get(self.show)
        if not (shown(sandbox, fleet, now_ns) if shown else fleet.state(sandbox).value == self.show.value):
            return False
        if not self.text:
            return True
        keys = sandbox.keys
        searched = (sandbox.key.sandbox_id, keys.rollout_id, keys.run_id, sandbox.deployment)
        return any(self.text in part.lower() for part in searched if part is not None)


def parse_selection(query: Mapping[str, str]) -> Selection:
    """Understand a query string; raises SelectionError."""
    unknown = sorted(query.keys() - {"q", "show", "deployment", "sort", "order", "offset", "limit"})
    if unknown:
        raise SelectionError(f"{unknown[0]}: there is no such key; use q, show, deployment, sort, order, offset, limit")
    return Selection(
        text=query.get("q", "").strip().lower(),
        show=_one_of(Show, query, "show", Show.ALL),
        deployment=query.get("deployment") or None,
        sort=_one_of(Sort, query, "sort", Sort.AGE),
        order=_one_of(Order, query, "order", Order.ASCENDING),
        offset=_whole(query, "offset", 0, 10**9),
        limit=_whole(query, "limit", 100, MOST_ROWS),
    )


def _one_of(kind: type[_Choice], query: Mapping[str, str], key: str, default: _Choice) -> _Choice:
    text = query.get(key, default.value)
    if text not in [choice.value for choice in kind]:
        raise SelectionError(f"{key}: must be one of {', '.join(kind)}")
    return kind(text)


def _whole(query: Mapping[str, str], key: str, default: int, most: int) -> int:
    text = query.get(key, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(most)) and int(text) <= most):
        raise SelectionError(f"{key}: must be a whole number from 0 to {most}")
    return int(text)
