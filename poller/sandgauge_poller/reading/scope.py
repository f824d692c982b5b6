"""Whose machine a reading's numbers describe: the contract's table, and what it needs to know of a host.

In an ordinary container execd reports the whole node under each sandbox's name. Only the memory total betrays that, so
every rule is about memory, and CPU follows. When in doubt it is `unknown`: a node's numbers taken for a
sandbox's would mislead whoever sizes sandboxes by them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from sandgauge_poller.tracking.progress import ScopeDecision
from sandgauge_schemas.names import ResourceSource, SampleScope, ScopeEvidence
from sandgauge_schemas.records import ComponentAllocation

CONSTANT_ZEROS = 5
"""Readings in a row with exactly 0 % that show a daemon which cannot see CPU use (gVisor), and no idle sandbox."""

_PER_SANDBOX_SOURCES = frozenset({ResourceSource.DOCKER_STATS, ResourceSource.KUBERNETES_METRICS})
_LEAST_MATCH, _MOST_MATCH = 0.9, 1.1
_ONE_VALUE = 0.001
"""Relative distance up to which two sizes count as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one reading, and what is known around it, says about scope; memory in MiB.

    `cpu_zeros` counts the readings in a row, this one included, whose CPU use was exactly 0; `shared_total` is
    `HostTotals.shared` after this reading was observed.
    """

    source: ResourceSource
    memory_limit_mib: float | None
    memory_total_mib: float | None
    cpu_zeros: int
    shared_total: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scopes:
    """The decisions for a reading's two quantities."""

    memory: ScopeDecision
    cpu: ScopeDecision


def decide_scopes(observation: Observation, before: ScopeDecision | None) -> Scopes:
    """Apply the table. `before` is the memory decision since the allocation last changed: `node` and `sandbox` stay."""
    if observation.source in _PER_SANDBOX_SOURCES:
        memory = ScopeDecision(SampleScope.SANDBOX, ScopeEvidence.SOURCE)
    elif before is None or is_undecided(before):
        memory = ScopeDecision(*_memory(observation))
    else:
        memory = before
    return Scopes(memory=memory, cpu=_cpu(memory, observation.cpu_zeros))


def is_undecided(before: ScopeDecision | None) -> bool:
    """Tell whether a reading may still decide: `node` and `sandbox` stay until the allocation changes."""
    return before is None or before.scope is SampleScope.UNKNOWN


def _memory(observation: Observation) -> tuple[SampleScope, ScopeEvidence]:
    limit, total = observation.memory_limit_mib, observation.memory_total_mib
    if not limit:
        return SampleScope.UNKNOWN, ScopeEvidence.NO_LIMIT
    if total is None:
        return SampleScope.UNKNOWN, ScopeEvidence.UNDECIDED
    if total > _MOST_MATCH * limit:
        return SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT
    if observation.shared_total:
        return SampleScope.NODE, ScopeEvidence.SHARED_TOTAL
    if total >= _LEAST_MATCH * limit:
        return SampleScope.SANDBOX, ScopeEvidence.TOTAL_MATCHES_LIMIT
    return SampleScope.UNKNOWN, ScopeEvidence.UNDECIDED


def _cpu(memory: ScopeDecision, zeros: int) -> ScopeDecision:
    if memory.evidence is not ScopeEvidence.TOTAL_MATCHES_LIMIT:
        return memory
    # A sandbox's own memory total proves nothing about CPU: gVisor shows the one and cannot see the other.
    blind = zeros >= CONSTANT_ZEROS
    return ScopeDecision(SampleScope.UNKNOWN, ScopeEvidence.CONSTANT_ZERO if blind else ScopeEvidence.UNDECIDED)


def main_component(components: Sequence[ComponentAllocation]) -> ComponentAllocation | None:
    """Return the one component `sandbox`, else the only component, else None."""
    named = [component for component in components if component.name == "sandbox"]
    candidates = named or components
    return candidates[0] if len(candidates) == 1 else None


def memory_limit_mib(components: Sequence[ComponentAllocation]) -> float | None:
    """Return the limit to compare a total with: that of the main component, None where it has none."""
    main = main_component(components)
    return main.limits.memory_mib if main is not None else None


@dataclass(frozen=True, slots=True)
class _Shown:
    limit_mib: float
    total_mib: float

    def betrays(self, other: "_Shown") -> bool:
        """Two limits under one total: it can be the limit of neither."""
        return _is_one(self.total_mib, other.total_mib) and not _is_one(self.limit_mib, other.limit_mib)


class HostTotals:
    """The memory total that each live sandbox of a host last showed, beside its limit.

    Holds one entry for each sandbox observed and not yet forgotten. A sandbox without a limit proves nothing: under
    gVisor it shows the host's total and yet its own use.
    """

    def __init__(self) -> None:
        self._hosts: dict[Hashable, dict[Hashable, _Shown]] = {}
        self._host_of: dict[Hashable, Hashable] = {}

    def observe(
        self, sandbox: Hashable, host: Hashable | None, *, limit_mib: float | None, total_mib: float | None
    ) -> None:
        """Keep what a sandbox shows, in place of what it showed before, there or on another host."""
        if host is None or not limit_mib or not total_mib:
            self.forget(sandbox)
            return
        before = self._hosts.get(host, {}).get(sandbox)
        if before is not None and before.limit_mib == limit_mib and before.total_mib == total_mib:
            return
        self.forget(sandbox)
        self._host_of[sandbox] = host
        self._hosts.setdefault(host, {})[sandbox] = _Shown(limit_mib, total_mib)

    def forget(self, sandbox: Hashable) -> None:
        """Let go of a sandbox that is no longer live."""
        host = self._host_of.pop(sandbox, None)
        if host is None:
            return
        del self._hosts[host][sandbox]
        if not self._hosts[host]:
            del self._hosts[host]

    def shared(self, sandbox: Hashable) -> bool:
        """Tell whether another live sandbox of the same host shows the same total under a different limit.

        Looks through the host's sandboxes, so ask only where nothing is decided yet.
        """
        host = self._host_of.get(sandbox)
        if host is None:
            return False
        own = self._hosts[host][sandbox]
        return any(own.betrays(other) for other in self._hosts[host].values())


def _is_one(left: float, right: float) -> bool:
    return abs(left - right) <= _ONE_VALUE * max(left, right)
