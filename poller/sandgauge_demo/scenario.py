"""What the demo's Gym-like runs ask for, and what becomes of it: the plan that run, progress and tests share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import cycle, islice
from typing import Any

from sandgauge_demo.deployment.model import ExecdKind
from sandgauge_demo.deployment.usage import Timeline, UsagePoint
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources

SDK_DEFAULT: Mapping[str, str] = {"cpu": "1", "memory": "2Gi"}
"""Limits that the OpenSandbox SDK fills in where its caller gives none."""

_ROLLOUTS_PER_TASK = 2
_STAGGER_S = 0.4
_FLEET_STAGGER_S = 1.0
_FLEET_FACTOR = 2.0


class Fate(Enum):
    """How a planned sandbox ends."""

    DELETED = "deleted"
    """The run deletes it."""
    OUT_OF_MEMORY = "out_of_memory"
    """It climbs to its memory limit and is killed there; the run deletes what is left."""
    REFUSED = "refused"
    """The control plane refuses to create it."""
    HALTED = "halted"
    """Its daemon does not answer for half of its life; the run deletes it."""
    FORGOTTEN = "forgotten"
    """The run ends without deleting it; it lives until its time to live is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One logical request. `submitted` are the limits sent after clamping; None leaves them to the SDK's default.

    Without `usage` its sandboxes use something plausible.
    """

    requested: SandboxResources
    submitted: SandboxResourceAmounts | None
    execd_kind: ExecdKind
    count: int = 1
    fate: Fate = Fate.DELETED
    usage: Timeline | None = None

    @property
    def limits(self) -> Mapping[str, str]:
        """The limits as the control plane is sent them, in Kubernetes quantities."""
        if self.submitted is None:
            return SDK_DEFAULT
        amounts = {
            "cpu": (self.submitted.cpu, ""),
            "memory": (self.submitted.memory_mib, "Mi"),
            "ephemeral-storage": (self.submitted.disk_gib, "Gi"),
        }
        return {name: f"{amount:g}{unit}" for name, (amount, unit) in amounts.items() if amount is not None}

    @property
    def sandboxes(self) -> int:
        """How many sandboxes come up."""
        return 0 if self.fate is Fate.REFUSED else self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRollout:
    """One rollout: it begins `begins_in_s` seconds into the run, and its sandboxes live side by side for `seconds`."""

    rollout_id: str
    requests: tuple[PlannedRequest, ...]
    begins_in_s: float
    seconds: float


_Kind = tuple[tuple[PlannedRequest, ...], float]
"""What a rollout asks for, and for how many seconds its sandboxes live."""


def planned_rollouts(count: int) -> tuple[PlannedRollout, ...]:
    """Return so many rollouts, each unlike the one before; ids are `<task>-<rollout>`, as Gym's are."""
    return _planned(islice(cycle(_KINDS), count), _STAGGER_S)


def fleet_rollouts() -> tuple[PlannedRollout, ...]:
    """Return the rollouts of one run of many: longer ones of every kind, and kinds that take longer to be noticed."""
    kinds = ((requests, _FLEET_FACTOR * seconds) for requests, seconds in _KINDS)
    return _planned((*_FLEET_KINDS, *kinds), _FLEET_STAGGER_S)


def _planned(kinds: Iterable[_Kind], stagger_s: float) -> tuple[PlannedRollout, ...]:
    return tuple(
        PlannedRollout(
            rollout_id="{}-{}".format(*divmod(number, _ROLLOUTS_PER_TASK)),
            requests=requests,
            begins_in_s=number * stagger_s,
            seconds=seconds,
        )
        for number, (requests, seconds) in enumerate(kinds)
    )


def run_seconds(plan: Sequence[PlannedRollout]) -> float:
    """Return how long a run of these rollouts takes."""
    return max(rollout.begins_in_s + rollout.seconds for rollout in plan)


def _as_asked(cpu: float, memory_mib: int, execd_kind: ExecdKind, **more: Any) -> PlannedRequest:
    """Return a request whose limits are what was asked for."""
    return PlannedRequest(
        requested=SandboxResources(cpu=cpu, memory_mib=memory_mib),
        submitted=SandboxResourceAmounts(cpu=cpu, memory_mib=memory_mib),
        execd_kind=execd_kind,
        **more,
    )


_PLAIN = (
    PlannedRequest(
        requested=SandboxResources(cpu=2, memory_mib=4096, disk_gib=10),
        submitted=SandboxResourceAmounts(cpu=2, memory_mib=4096, disk_gib=10),
        execd_kind=ExecdKind.RUNC,
    ),
)
_CLAMPED = (
    PlannedRequest(
        requested=SandboxResources(cpu=8, memory_mib=16384),
        submitted=SandboxResourceAmounts(cpu=4, memory_mib=8192),
        execd_kind=ExecdKind.GVISOR,
    ),
)
_SEVERAL = (
    _as_asked(0.5, 512, ExecdKind.GUEST, count=2),
    _as_asked(1, 1024, ExecdKind.RUNC, fate=Fate.REFUSED),
)
_NOTHING_SAID = (PlannedRequest(requested=SandboxResources(), submitted=None, execd_kind=ExecdKind.RUNC),)
_TOO_SMALL = (
    _as_asked(
        1,
        256,
        ExecdKind.GUEST,
        fate=Fate.OUT_OF_MEMORY,
        usage=(UsagePoint(0.0, 0.5, 64.0), UsagePoint(3.0, 1.0, 256.0)),
    ),
)
_KINDS: tuple[_Kind, ...] = (
    (_PLAIN, 9.0),
    (_CLAMPED, 10.0),
    (_SEVERAL, 9.0),
    (_NOTHING_SAID, 8.0),
    (_TOO_SMALL, 12.0),  # long enough for the poller to learn of the kill before the run deletes what is left
)

_FORGOTTEN = (_as_asked(1, 1024, ExecdKind.GVISOR, fate=Fate.FORGOTTEN),)
_HALTED = (_as_asked(2, 2048, ExecdKind.GUEST, fate=Fate.HALTED),)
_OVERSIZED = (_as_asked(16, 32768, ExecdKind.GUEST, usage=(UsagePoint(0.0, 0.4, 300.0), UsagePoint(10.0, 0.2, 700.0))),)
_FLEET_KINDS: tuple[_Kind, ...] = ((_FORGOTTEN, 8.0), (_HALTED, 30.0), (_OVERSIZED, 25.0))
