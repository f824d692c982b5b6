"""What a reading loop is set between in its tests: a provider, a sink and counters that the test is master of."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandgauge_poller.export import recording
from sandgauge_poller.export.sandbox_encoding import PointSettings, encoding_of
from sandgauge_poller.reading.provider import (
    AllocationReading,
    ReadWindow,
    SampleReading,
    SandboxState,
    StatusReading,
    Usage,
)
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_schemas.names import ErrorType, ResourceSource
from sandgauge_schemas.records import Allocation, ComponentAllocation
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.virtual_time import START_S

if TYPE_CHECKING:
    from sandgauge_poller.reading.limits import RateLimit

EPOCH_NS = 1_795_000_000_000_000_000
"""The poller's clock at the beginning of a test."""

LIMITED = Allocation(components=(ComponentAllocation(name="sandbox", limits=SandboxResourceAmounts(cpu=0.5)),))
Outcome = ErrorType | None | Exception


def at(seconds: float) -> int:
    """Return a time of the test on the poller's clock, ns since the epoch."""
    return EPOCH_NS + round(seconds * 1e9)


@dataclass
class Sandbox:
    """How a sandbox behaves; everything may be changed as time goes by."""

    state: SandboxState | None = SandboxState.RUNNING
    expires_at_ns: int | None = None
    sample: Outcome = None
    sample_takes_s: float = 1.0
    allocation: Outcome = None
    in_force: Allocation = LIMITED
    allocation_takes_s: float = 0.01
    oom_killed: bool | None = None


@dataclass(frozen=True)
class Call:
    """One question to the provider; `at` and `end` in seconds of the test."""

    at: float
    what: str
    sandbox_id: str


class FakeProvider:
    """Answers as its sandboxes are told to behave, and remembers what it was asked."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, Sandbox] = {}
        self.calls: list[Call] = []
        self.forgotten: list[str] = []
        self.slots: int | None = None
        self.limit: RateLimit | None = None

    def __getitem__(self, sandbox_id: str) -> Sandbox:
        return self.sandboxes.setdefault(sandbox_id, Sandbox())

    def times(self, what: str, sandbox_id: str = "s-1") -> list[float]:
        """Return when the sandbox was asked that, in seconds of the test."""
        return [call.at for call in self.calls if (call.what, call.sandbox_id) == (what, sandbox_id)]

    async def read_allocation(self, sandbox_id: str) -> AllocationReading:
        asked = self[sandbox_id]
        window, error = await self._ask("allocation", sandbox_id, asked.allocation_takes_s, asked.allocation)
        source = ResourceSource.OPENSANDBOX_INSPECT_DOCKER
        oom_killed = self[sandbox_id].oom_killed
        in_force = self[sandbox_id].in_force if error is None else Allocation()
        return AllocationReading(
            window=window, source=source, error_type=error, allocation=in_force, oom_killed=oom_killed
        )

    async def read_sample(self, sandbox_id: str) -> SampleReading:
        sandbox = self[sandbox_id]
        window, error = await self._ask("sample", sandbox_id, sandbox.sample_takes_s, sandbox.sample)
        usage = Usage(memory_used_mib=1.0) if error is None else None
        return SampleReading(window=window, source=ResourceSource.OPENSANDBOX_EXECD, error_type=error, usage=usage)

    async def read_status(self, sandbox_id: str) -> StatusReading:
        window, _ = await self._ask("status", sandbox_id, 0.01, None)
        sandbox = self[sandbox_id]
        error = ErrorType.TIMEOUT if sandbox.state is None else None
        return StatusReading(window=window, state=sandbox.state, error_type=error, expires_at_ns=sandbox.expires_at_ns)

    def read_slots(self) -> int | None:
        return self.slots

    def delay(self) -> float:
        return self.limit.delay() if self.limit else 0.0

    def forget(self, sandbox_id: str) -> None:
        self.forgotten.append(sandbox_id)

    async def close(self) -> None:
        pass

    async def _ask(
        self, what: str, sandbox_id: str, takes_s: float, outcome: Outcome
    ) -> tuple[ReadWindow, ErrorType | None]:
        if self.limit:
            await self.limit.wait()
        begun = elapsed()
        self.calls.append(Call(begun, what, sandbox_id))
        if isinstance(outcome, Exception):
            raise outcome
        await asyncio.sleep(takes_s)
        return ReadWindow(at(begun), at(elapsed())), outcome


@dataclass(frozen=True)
class Entry:
    """What the sink was given; `at` in seconds of the test, `detail` by kind."""

    at: float
    kind: str
    sandbox_id: str
    detail: Any = None
    is_final: bool = False


SETTINGS = PointSettings(metrics=True, rollout_id=True, request_id=True, max_clock_skew_ns=0)


class FakeSink:
    """Counts as the real recorder does, and remembers; `failures` makes calls of a kind fail that often."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.failures: Counter[str] = Counter()

    def of(self, kind: str, sandbox_id: str = "s-1") -> list[Entry]:
        """Return what was recorded of that kind."""
        return [entry for entry in self.entries if (entry.kind, entry.sandbox_id) == (kind, sandbox_id)]

    async def allocation(self, sandbox: Tracked, reading: AllocationReading) -> None:
        recording.record_allocation(sandbox, encoding_of(sandbox, SETTINGS), reading)
        await self._take("allocation", sandbox, reading.error_type)

    async def sample(self, sandbox: Tracked, reading: SampleReading, missed: int, *, is_final: bool) -> None:
        recording.record_sample(sandbox, encoding_of(sandbox, SETTINGS), reading, missed, is_final=is_final)
        await self._take("sample", sandbox, (reading.error_type, missed), is_final=is_final)

    async def ended(self, sandbox: Tracked) -> None:
        end = sandbox.progress.end
        await self._take("ended", sandbox, end.reason if end is not None else None)

    async def summary(self, sandbox: Tracked) -> None:
        progress = sandbox.progress
        assert progress.end is not None
        await self._take(
            "summary",
            sandbox,
            {
                "reason": progress.end.reason,
                "rollout": sandbox.keys.rollout_id,
                "readings": progress.readings,
                "missed": progress.missed,
                "leaked": progress.leaked,
                "oom_killed": progress.oom_killed,
            },
        )
        progress.summarised = True

    async def changed(self, sandbox: Tracked) -> None:
        await self._take("changed", sandbox, None)

    async def _take(self, kind: str, sandbox: Tracked, detail: Any, *, is_final: bool = False) -> None:
        await asyncio.sleep(0)
        if self.failures[kind] > 0:
            self.failures[kind] -= 1
            raise OSError("database or disk is full")
        self.entries.append(Entry(elapsed(), kind, sandbox.key.sandbox_id, detail, is_final))


class FakeMetrics:
    """What the loop counts."""

    def __init__(self) -> None:
        self.reads: Counter[tuple[str, str | None]] = Counter()
        self.latenesses: list[float] = []
        self.lags: list[float] = []
        self.conflicts: list[str] = []

    def read(self, deployment: str, kind: str, error_type: str | None, window: ReadWindow) -> None:
        del deployment, window
        self.reads[str(kind), None if error_type is None else str(error_type)] += 1

    def lateness(self, deployment: str, seconds: float) -> None:
        del deployment
        self.latenesses.append(seconds)

    def discovery_lag(self, deployment: str, seconds: float) -> None:
        del deployment
        self.lags.append(seconds)

    def conflict(self, kind: str) -> None:
        self.conflicts.append(str(kind))


def elapsed() -> float:
    """Return the seconds of the test."""
    return asyncio.get_running_loop().time() - START_S
