"""What a usage source can be asked, and what it answers.

A question never raises for what the other side does: every outcome is a value with an error type.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_schemas.names import ErrorType, ResourceSource
from sandgauge_schemas.placement import Identity


@dataclass(frozen=True, slots=True)
class UsageTarget:
    """A live sandbox whose usage is wanted: its id at its provider, and where it runs as last told."""

    sandbox_id: str
    designator: Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageObservation:
    """Numbers of one sandbox as a whole at the source's own time; None where the source does not say.

    `timestamp_ns`: ns since the epoch on the source's clock; for a mean the end of its window.
    `cpu_time_s`, `cpu_throttled_s`: seconds, cumulative since `started_ns`.
    `cpu_used_cores` and `window_s`: a mean, and over how many seconds, where the source itself forms it.
    `memory_working_set_mib`: MiB, without the page cache that can be let go at once.
    `started_ns`: when the present life of the container or pod began, ns since the epoch; another value, another life.
    """

    timestamp_ns: int
    cpu_time_s: float | None = None
    cpu_used_cores: float | None = None
    window_s: float | None = None
    cpu_throttled_s: float | None = None
    memory_working_set_mib: float | None = None
    started_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageAnswer:
    """What came of one target in a sweep; `observation` is None exactly when there is an error type."""

    window: ReadWindow
    source: ResourceSource
    error_type: ErrorType | None = None
    observation: UsageObservation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """Out-of-memory kills of one sandbox, as far as the source knows by now.

    `count`: kills since `since_ns` (ns since the epoch), those of children included; never less than before unless
    `since_ns` is later than before. None where the source cannot count.
    `main_killed`: whether its main process was; None where nothing tells.
    """

    since_ns: int
    count: int | None = None
    main_killed: bool | None = None


class UsageSource(Protocol):
    """One daemon or cluster that sees sandboxes from outside."""

    @property
    def source(self) -> ResourceSource:
        """Return what its records name as their source."""

    @property
    def interval_s(self) -> float:
        """Return how far apart its sweeps begin, in seconds."""

    def serves(self, designator: Identity) -> bool:
        """Tell whether a sandbox with that designator is one that the source could see, without asking it."""

    def sweep(self, targets: Sequence[UsageTarget]) -> AsyncGenerator[tuple[UsageTarget, UsageAnswer], None]:
        """Yield one answer for each target, each as it comes: one that hangs delays no other.

        Every request is bounded in time, so that the whole is; closing the generator early ends what is under way.
        """

    def kills(self, target: UsageTarget) -> Kills | None:
        """Return what is known of its kills by now, without asking; None where nothing is."""

    def forget(self, target: UsageTarget) -> None:
        """Let go of what is kept for a sandbox that has ended."""

    async def close(self) -> None:
        """Close connections, and end whatever runs beside the sweeps."""
