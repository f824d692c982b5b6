"""A status port over invented sandboxes, as many as wanted: what page and `top` are looked at with."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from sandgauge_poller.config import Status
from sandgauge_poller.ingest.events import LifecycleEvent, RequestEvent, StartEvent
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.context import ReadingContext, ReadingSettings
from sandgauge_poller.reading.provider import LastAnswer
from sandgauge_poller.reading.schedule import Pacer
from sandgauge_poller.status.api import Api
from sandgauge_poller.status.fleet import Fleet
from sandgauge_poller.status.observation import Observation
from sandgauge_poller.status.overview import Overview
from sandgauge_poller.status.readiness import Readiness
from sandgauge_poller.status.server import StatusServer
from sandgauge_poller.status.watch import WatchedRecorder
from sandgauge_poller.tracking.active_set import ActiveSet, Tracked
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.progress import End, Progress, RunningStatistics, ScopeDecision, UsageProgress
from sandgauge_poller.tracking.recent import MINUTES, Hour, Recent, minute_of
from sandgauge_poller.tracking.routing import DeploymentNames, Routing
from sandgauge_poller.tracking.tracker import Tracker
from sandgauge_schemas import names
from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource, SampleScope, ScopeEvidence
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import (
    Allocation,
    ComponentAllocation,
    JoinKeys,
    ReadingStatus,
    RequestRecord,
    StartRecord,
    Submission,
)
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.reading_doubles import FakeSink
from support.reading_world import SETTINGS
from support.served_in_thread import ServedInThread

TRAINING, EVALUATION = "training", "evaluation"
_SCOPES = {TRAINING: "http://osb.training.example", EVALUATION: "http://osb.evaluation.example"}
_SHAPES = ((1.0, 2048), (2.0, 4096), (4.0, 8192), (0.5, 1024), (8.0, 16384))
_NODE_MIB, _NODE_CPUS = 64_276.5, 16
_S_NS = 10**9
_LATE_S = 47.0


class _Provider:
    """A control plane that answered a moment ago."""

    def last_answer(self) -> LastAnswer:
        return LastAnswer(time.monotonic() - 1.4, None)

    def read_slots(self) -> None:
        return None


class _NoMetrics:
    """In place of the metrics page, which has tests of its own."""


class ShownFleet(ServedInThread):
    """Serves until its context ends, at `url`; every sandbox is invented anew in the same way each time."""

    start_timeout_s = 120.0

    def __init__(self, directory: Path, count: int, *, token: str = "") -> None:
        super().__init__("shown-fleet")
        self._directory = directory
        self._count = count
        self._token = token
        self.url = ""
        routing = Routing([DeploymentNames(name, "opensandbox", frozenset({scope})) for name, scope in _SCOPES.items()])
        self.active = ActiveSet(routing, 50_000)

    async def _serve(self) -> None:
        database = Database(self._directory)
        tracker = Tracker(database, self.active, lambda _: None)
        try:
            events = _events(self._count)
            while batch := list(islice(events, 2000)):
                await tracker.commit(batch)
            watched = WatchedRecorder(FakeSink())
            _live(list(self.active), watched)
            server = self._server(database, watched)
            host, port = await server.start()
            self.url = f"http://{host}:{port}"
            self._started.set()
            reading = asyncio.create_task(self._read_on())
            await self._ended.wait()
            reading.cancel()
            await server.stop()
        finally:
            await asyncio.to_thread(database.close, 5.0)

    async def _read_on(self) -> None:
        """Let every sandbox be read again when it is due, but for those that are late."""
        while True:
            await asyncio.sleep(1)
            now_ns = time.time_ns()
            for sandbox in self.active:
                progress = sandbox.progress
                if 10 * _S_NS < now_ns - (progress.last_reading_ns or now_ns) < _LATE_S * _S_NS:
                    progress.last_reading_ns = now_ns - _S_NS

    def _server(self, database: Database, watched: WatchedRecorder) -> StatusServer:
        providers = {name: _Provider() for name in _SCOPES}
        context = ReadingContext(
            settings=ReadingSettings(**SETTINGS),
            clock=SYSTEM_CLOCK,
            providers=providers,  # type: ignore[arg-type]  # what a look at it needs
            sink=watched,
            metrics=None,  # type: ignore[arg-type]  # nothing is read
            finish=None,  # type: ignore[arg-type]  # the same
            first_reads={name: Pacer(50.0) for name in _SCOPES},
        )
        observation = Observation(self.active, context, database, time.time_ns)
        readiness = Readiness(
            monotonic=time.monotonic,
            store_trouble=lambda: None,
            ingest=True,
            providers=providers,  # type: ignore[arg-type]  # the same
        )
        fleet = Fleet(self.active, context, {ResourceSource.KUBERNETES_METRICS: 15.0}, time.time_ns)
        status = Status(endpoint="127.0.0.1:0", auth={"bearer_token": self._token})
        api = Api(fleet, Overview(fleet, observation, readiness, watched), observation)
        return StatusServer(status, readiness, _NoMetrics(), api)  # type: ignore[arg-type]  # nobody asks for it


def _events(count: int) -> Iterator[LifecycleEvent]:
    random, now_ns = Random(7), time.time_ns()
    for number in range(count):
        trace_id = random.randbytes(16)
        sandbox_id = f"sbx-{random.randbytes(4).hex()}-{number}"
        cpu, memory_mib = _SHAPES[number % len(_SHAPES)]
        age_s = 20 + 3500 * random.random() ** 2 + 7 * 3600 * (number % 97 == 3)
        keys = JoinKeys(
            run_id=f"grpo-coder-{20 + number % 3}",
            rollout_id=f"{number // 8}-{number % 8}",
            request_id=f"req-{number}",
            sandbox_id=sandbox_id,
            provider="opensandbox",
        )
        span = {"trace_id": trace_id, "received_ns": now_ns, "start_ns": now_ns}
        requested = SandboxResources(cpu=cpu * (2 if number % 11 == 4 else 1), memory_mib=memory_mib, disk_gib=10)
        yield RequestEvent(**span, span_id=random.randbytes(8), record=RequestRecord(keys=keys, requested=requested))
        deployment = EVALUATION if number % 7 == 5 else TRAINING
        scope = "http://osb.elsewhere.example" if number % 211 == 8 else _SCOPES[deployment]
        began_ns = now_ns - round(age_s * _S_NS)
        submission = Submission(limits=SandboxResourceAmounts(cpu=cpu, memory_mib=float(memory_mib), disk_gib=10.0))
        yield StartEvent(
            trace_id=trace_id,
            span_id=random.randbytes(8),
            received_ns=began_ns,
            start_ns=began_ns,
            end_ns=began_ns,
            record=StartRecord(keys=keys, submission=submission, scope=scope),
        )


def _live(sandboxes: list[Tracked], watched: WatchedRecorder) -> None:
    """Let every sandbox have lived for as long as it is old."""
    random, now_ns = Random(11), time.time_ns()
    for number, sandbox in enumerate(sandboxes):
        if sandbox.deployment is not None:
            _Life(sandbox, number, random, now_ns).lead()
    for minute in range(minute_of(now_ns) - MINUTES + 1, minute_of(now_ns) + 1):
        each = len(sandboxes) * 6
        watched.answered.add(minute, round(each * random.uniform(0.97, 1.0)))
        watched.failed.add(minute, round(each * random.uniform(0.0, 0.02)))


@dataclass
class _Life:
    sandbox: Tracked
    number: int
    random: Random
    now_ns: int

    def lead(self) -> None:
        start = self.sandbox.lifecycle.start
        assert start is not None
        limits = start.record.submission.limits
        began_ns = start.received_ns
        progress = self.sandbox.progress
        identity = Identity("kubernetes", _SCOPES[TRAINING], f"namespaces/sandboxes/pods/pod-{self.number}")
        host = Identity("kubernetes-node", _SCOPES[TRAINING], f"node-{self.number % 12}")
        components = (ComponentAllocation(name="sandbox", requests=limits, limits=limits),)
        allocation = Allocation(components=components, designator=identity, host=host)
        progress.allocation = progress.recorded_allocation = allocation
        progress.allocation_status = ReadingStatus(source=ResourceSource.OPENSANDBOX_INSPECT_KUBERNETES)
        if self.number % 41 == 7:
            progress.failed_in_a_row_ns = [self.now_ns - 30 * _S_NS]
            self.sandbox.recent = Recent(error_type=ErrorType.TIMEOUT)
            return
        self._read(progress, limits, began_ns)
        if self.number % 29 == 11:
            progress.paused = True
        elif self.number % 97 == 3:
            progress.leaked = True
        elif self.number % 53 == 20:
            progress.end = End(EndReason.STOPPED, self.now_ns - 20 * _S_NS)

    def _read(self, progress: Progress, limits: SandboxResourceAmounts, began_ns: int) -> None:
        late_s = _LATE_S if self.number % 83 == 30 else self.random.uniform(0.5, 9.0)
        progress.readings = max(1, (self.now_ns - began_ns) // (10 * _S_NS))
        progress.first_reading_ns, progress.last_reading_ns = began_ns, self.now_ns - round(late_s * _S_NS)
        sees_node = self.number % 3 == 0
        total_mib = _NODE_MIB if sees_node else limits.memory_mib or 0.0
        decided = (SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT)
        if not sees_node:
            decided = (SampleScope.SANDBOX, ScopeEvidence.TOTAL_MATCHES_LIMIT)
        progress.memory = ScopeDecision(*decided)
        unknown = ScopeDecision(SampleScope.UNKNOWN, ScopeEvidence.UNDECIDED)
        progress.cpu = progress.memory if sees_node else unknown
        cpu = self._hour(began_ns, 0.2 + 0.6 * self.random.random(), 100.0)
        memory = self._hour(began_ns, 0.15 + 0.7 * self.random.random(), total_mib)
        recent = Recent(cpu_used_percentage=cpu, memory_used_mib=memory)
        self._condense(names.METRIC_GYM_SANDBOX_CPU_COUNT, _NODE_CPUS if sees_node else limits.cpu or 1.0)
        self._condense(names.METRIC_GYM_SANDBOX_CPU_USED_PERCENTAGE, self._last(cpu))
        self._condense(names.METRIC_GYM_SANDBOX_MEMORY_TOTAL_MIB, total_mib)
        self._condense(names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB, self._last(memory))
        if self.number % 5 == 1:
            usage = UsageProgress(source=ResourceSource.KUBERNETES_METRICS, readings=9)
            usage.last_reading_ns = self.now_ns - 6 * _S_NS
            progress.usage = usage
            recent.cpu_used_cores = self._hour(began_ns, 0.5, limits.cpu or 1.0)
            recent.memory_working_set_mib = self._hour(began_ns, 0.6, limits.memory_mib or 1.0)
            self._condense(names.METRIC_GYM_SANDBOX_CPU_USED_CORES, self._last(recent.cpu_used_cores))
            self._condense(names.METRIC_GYM_SANDBOX_MEMORY_WORKING_SET_MIB, self._last(recent.memory_working_set_mib))
        self.sandbox.recent = recent

    def _condense(self, metric: str, last: float) -> None:
        found = RunningStatistics.of(last * 0.4)
        found.add(last)
        self.sandbox.progress.statistics[metric] = found

    def _last(self, hour: Hour) -> float:
        return next(point for point in reversed(hour.until(minute_of(self.now_ns))) if point is not None)

    def _hour(self, began_ns: int, level: float, most: float) -> Hour:
        """Return a walk around a level, from the sandbox's beginning on; a few minutes are without a reading."""
        hour, value = Hour(), level * 0.4
        newest = minute_of(self.now_ns)
        for minute in range(max(newest - MINUTES + 1, minute_of(began_ns)), newest + 1):
            value += 0.25 * (level - value) + self.random.uniform(-0.08, 0.08)
            value = min(0.98, max(0.01, value))
            if minute == newest or self.random.random() > 0.03:
                hour.raise_to(minute, value * most)
        return hour
