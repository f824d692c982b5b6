"""A reading loop in virtual time, between a provider that the test is master of and a sink that remembers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sandgauge_poller.config import scope_identity
from sandgauge_poller.export import recording
from sandgauge_poller.ingest.events import LifecycleEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.context import ReadingContext, ReadingSettings
from sandgauge_poller.reading.loop import ReadingLoop
from sandgauge_poller.reading.provider import (
    AllocationReading,
    ReadWindow,
    SampleReading,
    SandboxState,
    StatusReading,
    Usage,
)
from sandgauge_poller.reading.schedule import Pacer
from sandgauge_poller.tracking.active_set import ActiveSet, Change, ChangeKind, SandboxKey, Tracked
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_schemas.names import ErrorType, ResourceSource
from sandgauge_schemas.records import Allocation, ComponentAllocation, JoinKeys, StartRecord
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.virtual_time import START_S

EPOCH_NS = 1_795_000_000_000_000_000
"""The poller's clock at the beginning of a test."""

TRACE = b"\x01" * 16
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

    def forget(self, sandbox_id: str) -> None:
        self.forgotten.append(sandbox_id)

    async def close(self) -> None:
        pass

    async def _ask(
        self, what: str, sandbox_id: str, takes_s: float, outcome: Outcome
    ) -> tuple[ReadWindow, ErrorType | None]:
        begun = _elapsed()
        self.calls.append(Call(begun, what, sandbox_id))
        if isinstance(outcome, Exception):
            raise outcome
        await asyncio.sleep(takes_s)
        return ReadWindow(at(begun), at(_elapsed())), outcome


@dataclass(frozen=True)
class Entry:
    """What the sink was given; `at` in seconds of the test, `detail` by kind."""

    at: float
    kind: str
    sandbox_id: str
    detail: Any = None
    is_final: bool = False


class FakeSink:
    """Counts as the real recorder does, and remembers; `failures` makes calls of a kind fail that often."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.failures: Counter[str] = Counter()

    def of(self, kind: str, sandbox_id: str = "s-1") -> list[Entry]:
        """Return what was recorded of that kind."""
        return [entry for entry in self.entries if (entry.kind, entry.sandbox_id) == (kind, sandbox_id)]

    async def allocation(self, sandbox: Tracked, reading: AllocationReading) -> None:
        recording.record_allocation(sandbox, reading)
        await self._take("allocation", sandbox, reading.error_type)

    async def sample(self, sandbox: Tracked, reading: SampleReading, missed: int, *, is_final: bool) -> None:
        recording.record_sample(sandbox, reading, missed, is_final=is_final)
        await self._take("sample", sandbox, (reading.error_type, missed), is_final=is_final)

    async def ended(self, sandbox: Tracked) -> None:
        assert sandbox.progress.end is not None
        await self._take("ended", sandbox, sandbox.progress.end.reason)

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
        self.entries.append(Entry(_elapsed(), kind, sandbox.key.sandbox_id, detail, is_final))


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


@dataclass
class World:
    """Everything around one loop; times in seconds since it began."""

    provider: FakeProvider
    sink: FakeSink
    metrics: FakeMetrics
    active: ActiveSet
    context: ReadingContext
    loop: ReadingLoop
    finished: list[tuple[float, str]] = field(default_factory=list)
    _spans: int = 0

    def apply(self, event: LifecycleEvent) -> None:
        """Let an event come in."""
        for change in self.active.apply(event):
            self.loop.on_change(change)

    def start(
        self,
        sandbox_id: str = "s-1",
        *,
        trace_id: bytes = TRACE,
        root: bool = True,
        rollout: str | None = None,
        hint: float | None = None,
        provider: str = "opensandbox",
        scope: str | None = None,
    ) -> Tracked:
        """Let a start span come in that ended just now; one that is no root waits for its rollout."""
        keys = JoinKeys(sandbox_id=sandbox_id, provider=provider, rollout_id=rollout)
        record = StartRecord(keys=keys, sample_interval_s=hint, scope=scope)
        parent = None if root else b"\x07" * 8
        self.apply(StartEvent(**self._span(trace_id), parent_span_id=parent, record=record))
        return self.tracked(sandbox_id)

    def stop(
        self,
        sandbox_id: str = "s-1",
        *,
        began: float | None = None,
        ended: float | None = None,
        failed: bool = False,
    ) -> None:
        """Let a stop span come in; it began and ended just now unless told otherwise."""
        span = self._span(TRACE)
        span["start_ns"] = at(_elapsed() if began is None else began)
        span["end_ns"] = at(_elapsed() if ended is None else ended)
        self.apply(StopEvent(**span, keys=JoinKeys(sandbox_id=sandbox_id, provider="opensandbox"), failed=failed))

    def end_rollout(self, rollout_id: str = "7-0", trace_id: bytes = TRACE) -> None:
        """Let the rollout span of a trace come in."""
        self.apply(RolloutEvent(**self._span(trace_id), keys=JoinKeys(rollout_id=rollout_id)))

    def tracked(self, sandbox_id: str = "s-1") -> Tracked:
        """Return a sandbox of the active set."""
        found = [sandbox for sandbox in self.active if sandbox.key.sandbox_id == sandbox_id]
        assert found, f"{sandbox_id} is not in the active set"
        return found[0]

    def restore(self, events: list[LifecycleEvent], progress: dict[str, Progress]) -> None:
        """Bring sandboxes back as after a restart."""
        for event in events:
            self.active.apply(event)
        for sandbox in self.active:
            sandbox.progress = progress.get(sandbox.key.sandbox_id, sandbox.progress)
            self.loop.on_change(Change(ChangeKind.RESTORED, sandbox))

    async def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        await asyncio.sleep(seconds - _elapsed())

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Let time pass until something holds, to the tenth of a second."""
        while not condition():  # noqa: ASYNC110  # it is virtual time that passes, for conditions of any kind
            await asyncio.sleep(0.1)

    def _span(self, trace_id: bytes) -> dict[str, Any]:
        self._spans += 1
        span_id = self._spans.to_bytes(8, "big")
        now_ns = at(_elapsed())
        return {"trace_id": trace_id, "span_id": span_id, "start_ns": now_ns, "end_ns": now_ns, "received_ns": now_ns}


SETTINGS: dict[str, float] = {
    "collection_interval": 10.0,
    "min_interval": 2.0,
    "initial_delay": 0.0,
    "collection_jitter": 0.0,
    "refresh_interval": 300.0,
    "orphan_grace": 300.0,
    "summary_delay": 600.0,
}


@asynccontextmanager
async def world(
    *,
    deployments: Sequence[str] = ("training",),
    rate: float = 1000.0,
    now_ns: Callable[[], int] | None = None,
    **settings: float,
) -> AsyncIterator[World]:
    """Run a loop; each deployment has the scope `http://<name>`, one provider is all, `rate` caps first readings."""
    provider, sink, metrics = FakeProvider(), FakeSink(), FakeMetrics()
    named = [
        DeploymentNames(name, "opensandbox", frozenset({scope_identity(f"http://{name}")})) for name in deployments
    ]
    active = ActiveSet(Routing(named), 10_000)
    finished: list[tuple[float, str]] = []

    async def finish(sandbox: Tracked) -> None:
        active.discard(sandbox)
        await asyncio.sleep(0)
        finished.append((_elapsed(), sandbox.key.sandbox_id))

    context = ReadingContext(
        settings=ReadingSettings(**{**SETTINGS, **settings}),
        clock=Clock(now_ns=now_ns or (lambda: at(_elapsed())), monotonic=lambda: asyncio.get_running_loop().time()),
        providers=dict.fromkeys(deployments, provider),
        sink=sink,
        metrics=metrics,  # type: ignore[arg-type]  # the counters that the loop uses
        finish=finish,
        first_reads={name: Pacer(rate) for name in deployments},
    )
    loop = ReadingLoop(context, active)
    running = asyncio.create_task(loop.run())
    try:
        yield World(provider, sink, metrics, active, context, loop, finished)
        assert not running.done(), "the loop has ended by itself"
    finally:
        running.cancel()
        await loop.stop()
        await asyncio.gather(running, return_exceptions=True)


def _elapsed() -> float:
    return asyncio.get_running_loop().time() - START_S


def key(sandbox_id: str = "s-1") -> SandboxKey:
    """Return the key of a sandbox of the one deployment."""
    return SandboxKey("training", sandbox_id)
