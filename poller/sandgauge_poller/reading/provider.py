"""What a provider of sandboxes can be asked, and what one bounded question gives.

A question never raises for what the other side does: every outcome is a value with an error type.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sandgauge_schemas.names import ErrorType, ResourceSource
from sandgauge_schemas.records import Allocation


class SandboxState(Enum):
    """State of a sandbox as its control plane tells it."""

    PENDING = "pending"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    TERMINATED = "terminated"
    FAILED = "failed"
    NOT_FOUND = "not_found"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """When a question was asked: from send to last byte, ns since the epoch; `wait_s` is the time before it in s.

    `wait_s` is what the question waited for a slot or for its rate, which is not the sandbox's doing.
    """

    start_ns: int
    end_ns: int
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationReading:
    """Quantities and placement in force; placement may be known although the quantities are not.

    `started_ns`: when its container or pod began its present life, in ns since the epoch on the runtime's clock.
    `restarts`: how often its main container was started again within that life. Both None where nothing tells.
    """

    window: ReadWindow
    source: ResourceSource
    error_type: ErrorType | None = None
    allocation: Allocation = Allocation()
    oom_killed: bool | None = None
    started_ns: int | None = None
    restarts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Numbers of one execd answer: memory in MiB, CPU in percent of what the daemon sees, ms since the epoch."""

    timestamp_ms: int | None = None
    cpu_count: float | None = None
    cpu_used_percentage: float | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReading:
    """One reading of a sandbox's daemon; `usage` is None exactly when there is an error type."""

    window: ReadWindow
    source: ResourceSource
    error_type: ErrorType | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReading:
    """State of a sandbox; None with an error type when the control plane did not say.

    `expires_at_ns`: when the sandbox is due to be removed, ns since the epoch; None without an expiry.
    """

    window: ReadWindow
    state: SandboxState | None
    error_type: ErrorType | None = None
    expires_at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """How a control plane answered last: when, in monotonic seconds, and no error type when it was in order."""

    at_s: float
    error_type: ErrorType | None


class Provider(Protocol):
    """One deployment of a provider; every call is bounded in time and never raises for what the other side does."""

    async def read_allocation(self, sandbox_id: str) -> AllocationReading:
        """Ask what is in force for the sandbox."""

    async def read_sample(self, sandbox_id: str) -> SampleReading:
        """Read the sandbox's own daemon once."""

    async def read_status(self, sandbox_id: str) -> StatusReading:
        """Ask the control plane in what state the sandbox is."""

    def read_slots(self) -> int | None:
        """Return how many daemon readings this deployment carries at once; None where there is no such bound."""

    def delay(self) -> float:
        """Return how long a question to its control plane would wait for its turn now, in seconds."""

    def last_answer(self) -> LastAnswer | None:
        """Return how its control plane answered last; None when it was never asked."""

    def forget(self, sandbox_id: str) -> None:
        """Let go of what is kept for a sandbox that has ended (endpoint, connection)."""

    async def close(self) -> None:
        """Close connections."""
