"""A reading loop in virtual time, between a provider that the test is master of and a sink that remembers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sandgauge_poller.config import scope_identity
from sandgauge_poller.ingest.events import LifecycleEvent, RolloutEvent, StartEvent, StopEvent
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.context import ReadingContext, ReadingSettings
from sandgauge_poller.reading.loop import ReadingLoop
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.reading.schedule import Pacer
from sandgauge_poller.tracking.active_set import ActiveSet, Change, ChangeKind, SandboxKey, Tracked
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.reading_doubles import Entry, FakeMetrics, FakeProvider, FakeSink, at, elapsed

TRACE = b"\x01" * 16


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
    sender_ahead: float = 0.0
    """How far the clock of whoever sends spans is ahead of the poller's."""
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
        run: str | None = None,
        rollout: str | None = None,
        hint: float | None = None,
        provider: str = "opensandbox",
        scope: str | None = None,
    ) -> Tracked:
        """Let a start span come in that ended just now; one that is no root waits for its rollout."""
        keys = JoinKeys(run_id=run, sandbox_id=sandbox_id, provider=provider, rollout_id=rollout)
        record = StartRecord(keys=keys, sample_interval_s=hint, scope=scope)
        parent = None if root else b"\x07" * 8
        self.apply(StartEvent(**self._span(trace_id), parent_span_id=parent, record=record))
        return self.tracked(sandbox_id)

    async def live(self, until: float, sandbox_id: str = "s-1", **start: Any) -> Tracked:
        """Let a start span come in, and time pass until so many seconds after the beginning."""
        sandbox = self.start(sandbox_id, **start)
        await self.until(until)
        return sandbox

    def delete(self, sandbox_id: str = "s-1", *, error: ErrorType = ErrorType.HTTP_ERROR) -> None:
        """Let a sandbox be gone: its control plane does not know it, and nothing else of it can be asked."""
        gone = self.provider[sandbox_id]
        gone.state, gone.sample, gone.allocation = SandboxState.NOT_FOUND, error, error

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
        span["start_ns"] = at((elapsed() if began is None else began) + self.sender_ahead)
        span["end_ns"] = at((elapsed() if ended is None else ended) + self.sender_ahead)
        self.apply(StopEvent(**span, keys=JoinKeys(sandbox_id=sandbox_id, provider="opensandbox"), failed=failed))

    def end_rollout(self, rollout_id: str = "7-0", trace_id: bytes = TRACE, run: str | None = None) -> None:
        """Let the rollout span of a trace come in."""
        self.apply(RolloutEvent(**self._span(trace_id), keys=JoinKeys(run_id=run, rollout_id=rollout_id)))

    def tracked(self, sandbox_id: str = "s-1") -> Tracked:
        """Return a sandbox of the active set."""
        found = [sandbox for sandbox in self.active if sandbox.key.sandbox_id == sandbox_id]
        assert found, f"{sandbox_id} is not in the active set"
        return found[0]

    def kinds(self, sandbox_id: str = "s-1") -> list[str]:
        """Return what was recorded of a sandbox, kind by kind."""
        entries = [entry for entry in self.sink.entries if entry.sandbox_id == sandbox_id]
        return [entry.kind for entry in entries if entry.kind != "changed"]

    def summary(self, sandbox_id: str = "s-1") -> dict[str, Any]:
        """Return what the one summary of a sandbox says."""
        (entry,) = self.sink.of("summary", sandbox_id)
        return dict(entry.detail)

    def final(self, sandbox_id: str = "s-1") -> list[Entry]:
        """Return its readings before deletion."""
        return [entry for entry in self.sink.of("sample", sandbox_id) if entry.is_final]

    def since(self, seconds: float) -> list[tuple[str, float]]:
        """Return what was asked since then, and how much later."""
        return [(call.what, round(call.at - seconds, 2)) for call in self.provider.calls if call.at >= seconds]

    async def between_readings(self, after: float) -> float:
        """Let time pass until no reading is on its way, nor due within five seconds; return when that is."""
        await self.until(after)
        begun = len(self.provider.times("sample"))
        await self.wait_for(lambda: len(self.provider.times("sample")) > begun)
        await self.until(self.provider.times("sample")[-1] + 3)
        return self.provider.times("sample")[-1] + 3

    async def live_between_readings(self) -> float:
        """Let a start span come in and be read; return when no reading is on its way, nor due soon."""
        self.start()
        return await self.between_readings(20)

    async def read_before_deletion(self) -> float:
        """Do the same, and then read before the deletion; return when that was asked for."""
        asked = await self.live_between_readings()
        await self.loop.final_reading("s-1")
        return asked

    def restore(self, events: list[LifecycleEvent], progress: dict[str, Progress]) -> None:
        """Bring sandboxes back as after a restart."""
        for event in events:
            self.active.apply(event)
        for sandbox in self.active:
            sandbox.progress = progress.get(sandbox.key.sandbox_id, sandbox.progress)
            self.loop.on_change(Change(ChangeKind.RESTORED, sandbox))

    async def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after the beginning."""
        await asyncio.sleep(seconds - elapsed())

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Let time pass until something holds, to the tenth of a second."""
        while not condition():  # noqa: ASYNC110  # it is virtual time that passes, for conditions of any kind
            await asyncio.sleep(0.1)

    def _span(self, trace_id: bytes) -> dict[str, Any]:
        self._spans += 1
        span_id = self._spans.to_bytes(8, "big")
        now_ns, said_ns = at(elapsed()), at(elapsed() + self.sender_ahead)
        times = {"start_ns": said_ns, "end_ns": said_ns, "received_ns": now_ns}
        return {"trace_id": trace_id, "span_id": span_id, **times}


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
        finished.append((elapsed(), sandbox.key.sandbox_id))

    context = ReadingContext(
        settings=ReadingSettings(**{**SETTINGS, **settings}),
        clock=Clock(now_ns=now_ns or (lambda: at(elapsed())), monotonic=lambda: asyncio.get_running_loop().time()),
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


def key(sandbox_id: str = "s-1") -> SandboxKey:
    """Return the key of a sandbox of the one deployment."""
    return SandboxKey("training", sandbox_id)
