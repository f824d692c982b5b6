"""Sweeps of usage sources: whom they ask and when, what is missed, and a deployment without daemons' readings."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.provider import ReadWindow, SandboxState
from sandgauge_poller.reading.usage.loop import PlacedSource, UsageLoop
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageObservation
from sandgauge_poller.tracking.progress import Progress, UsageProgress
from sandgauge_schemas.names import EndReason, ErrorType, ResourceSource
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.reading_doubles import LIMITED, at, elapsed
from support.reading_world import TRACE, world
from support.virtual_time import in_virtual_time

DOCKER = ResourceSource.DOCKER_STATS


class FakeSource:
    """Answers for each target after so many seconds, with a failure where one is set."""

    source = DOCKER
    interval_s = 10.0

    def __init__(self):
        self.takes_s = {}
        self.failures = {}
        self.sweeps = []
        self.forgotten = []
        self.killed = {}
        self.broken = False

    def serves(self, designator):
        return designator.kind == "docker-container"

    async def sweep(self, targets) -> AsyncGenerator:
        self.sweeps.append((elapsed(), sorted(target.sandbox_id for target in targets)))
        if self.broken:
            raise RuntimeError("an error of our own")
        for target in sorted(targets, key=lambda target: self.takes_s.get(target.sandbox_id, 0.0)):
            begun = elapsed()
            await asyncio.sleep(self.takes_s.get(target.sandbox_id, 0.0))
            window = ReadWindow(at(begun), at(elapsed()))
            error = self.failures.get(target.sandbox_id)
            observation = UsageObservation(timestamp_ns=at(begun)) if error is None else None
            yield target, UsageAnswer(window=window, source=DOCKER, error_type=error, observation=observation)

    def kills(self, target):
        return self.killed.get(target.sandbox_id)

    def forget(self, target):
        self.forgotten.append(target.sandbox_id)

    def asked(self, sandbox_id):
        return [round(when) for when, targets in self.sweeps if sandbox_id in targets]


class Taken:
    """A sink that remembers."""

    def __init__(self):
        self.entries = []
        self.refuses = ()

    async def usage(self, sandbox, answer, kills, missed):
        await asyncio.sleep(0)
        if sandbox.key.sandbox_id in self.refuses:
            raise RuntimeError("an error of our own")
        self.entries.append((elapsed(), sandbox.key.sandbox_id, answer.error_type, missed, kills))

    def of(self, sandbox_id):
        return [(error, missed) for _, name, error, missed, _ in self.entries if name == sandbox_id]


@asynccontextmanager
async def usage_world(*, deployments=("training",), served=(), without_execd=False, **settings):
    """A reading world with a usage source beside it; its sandboxes run in containers."""
    async with world(deployments=deployments, **settings) as around:
        around.context.without_execd = frozenset(deployments) if without_execd else frozenset()
        source, sink = FakeSource(), Taken()
        loop = UsageLoop(
            [PlacedSource(source, frozenset(served))],
            around.active,
            around.loop,
            sink=sink,
            metrics=around.metrics,
            clock=around.context.clock,
        )
        running = asyncio.create_task(loop.run())
        try:
            yield around, source, sink, loop
            assert not running.done(), "the loop has ended by itself"
        finally:
            running.cancel()


def place(around, sandbox_id, kind="docker-container"):
    designator = Identity(kind, "http://training", f"container-of-{sandbox_id}")
    around.provider[sandbox_id].in_force = replace(LIMITED, designator=designator)


@in_virtual_time
async def test_each_sandbox_is_asked_for_once_in_each_sweep():
    async with usage_world() as (around, source, sink, _):
        for name in ("s-1", "s-2"):
            place(around, name)
            around.start(name)
        place(around, "s-3", "kubernetes")
        around.start("s-3")
        around.start("s-4")  # of which nobody says where it runs
        await around.until(35)
        assert source.sweeps == [(10.0, ["s-1", "s-2"]), (20.0, ["s-1", "s-2"]), (30.0, ["s-1", "s-2"])]
        assert sink.of("s-1") == [(None, 0)] * 3
        assert around.metrics.reads["usage", None] == 6


@in_virtual_time
async def test_a_source_is_asked_only_for_the_deployments_that_it_serves():
    async with usage_world(deployments=("here", "there"), served=("here",)) as (around, source, _, _):
        for name, scope in (("s-1", "http://here"), ("s-2", "http://there")):
            place(around, name)
            around.start(name, scope=scope)
        await around.until(15)
        assert source.sweeps == [(10.0, ["s-1"])]


@in_virtual_time
async def test_a_slow_answer_holds_up_no_other_and_sweeps_never_overlap():
    async with usage_world() as (around, source, sink, _):
        for name in ("s-1", "s-2"):
            place(around, name)
            around.start(name)
        source.takes_s["s-2"] = 14.0
        await around.until(52)
        assert [when for when, _ in source.sweeps] == [10.0, 30.0, 50.0]
        assert [(round(when), name) for when, name, *_ in sink.entries][:4] == [
            (10, "s-1"),
            (24, "s-2"),
            (30, "s-1"),
            (44, "s-2"),
        ]


@in_virtual_time
async def test_every_failure_is_recorded_as_missed_and_is_asked_for_again():
    async with usage_world() as (around, source, sink, _):
        place(around, "s-1")
        around.start()
        source.failures["s-1"] = ErrorType.CONNECTION
        await around.until(25)
        source.failures.clear()
        await around.until(35)
        assert sink.of("s-1") == [(ErrorType.CONNECTION, 1), (ErrorType.CONNECTION, 1), (None, 0)]


@in_virtual_time
async def test_one_that_hangs_is_asked_less_often_and_all_that_it_missed_is_counted():
    async with usage_world() as (around, source, sink, _):
        place(around, "s-1")
        around.start()
        source.failures["s-1"] = ErrorType.TIMEOUT
        await around.until(245)
        assert source.asked("s-1") == [10, 20, 40, 80, 140, 200]  # and no further apart than a minute
        assert sum(missed for _, missed in sink.of("s-1")) == 20
        source.failures.clear()
        await around.until(275)
        assert source.asked("s-1")[6:] == [260, 270]
        assert sink.of("s-1")[6:] == [(None, 5), (None, 0)]


@in_virtual_time
async def test_an_error_of_our_own_ends_no_loop():
    async with usage_world() as (around, source, sink, _):
        place(around, "s-1")
        around.start()
        source.broken = True
        await around.until(15)
        source.broken = False
        await around.until(25)
        assert sink.of("s-1") == [(None, 0)]


@in_virtual_time
async def test_an_answer_that_cannot_be_recorded_keeps_no_other_from_it():
    async with usage_world() as (around, _, sink, _):
        for name in ("s-1", "s-2", "s-3"):
            place(around, name)
            around.start(name)
        sink.refuses = ("s-2",)
        await around.until(25)
        assert [sink.of(name) for name in ("s-1", "s-2", "s-3")] == [[(None, 0)] * 2, [], [(None, 0)] * 2]


@in_virtual_time
async def test_an_answer_that_comes_after_the_end_is_no_record():
    async with usage_world() as (around, source, sink, _):
        place(around, "s-1")
        around.start()
        source.takes_s["s-1"] = 4.0
        await around.until(12)
        around.stop()
        await around.until(25)
        assert sink.entries == []
        assert source.asked("s-1") == [10]


@in_virtual_time
async def test_what_is_kept_of_a_sandbox_goes_with_it():
    async with usage_world(orphan_grace=30.0) as (around, source, _, loop):
        place(around, "s-1")
        sandbox = around.start()
        source.killed["s-1"] = Kills(since_ns=0, count=1)
        await around.until(15)
        assert loop.kills(sandbox) == (DOCKER, Kills(since_ns=0, count=1))
        around.stop()
        around.delete()
        await around.until(40)
        assert loop.kills(sandbox) is not None  # until its summary is out
        await around.until(65)
        assert source.forgotten == ["s-1"]
        assert loop.kills(sandbox) is None


@in_virtual_time
async def test_what_was_kept_of_a_former_container_goes_with_that():
    async with usage_world(refresh_interval=20.0) as (around, source, sink, _):
        place(around, "s-1")
        around.start()
        await around.until(15)
        designator = Identity("docker-container", "http://training", "another-container")
        around.provider["s-1"].in_force = replace(LIMITED, designator=designator)
        await around.until(45)
        assert source.forgotten == ["s-1"]
        assert sink.of("s-1") == [(None, 0)] * 4


@in_virtual_time
async def test_without_daemons_readings_a_sandbox_still_lives_and_ends():
    async with usage_world(without_execd=True) as (around, source, sink, _):
        place(around, "s-1")
        around.start()
        await around.until(45)
        assert around.provider.times("sample") == []
        assert await around.loop.final_reading("s-1") is FinalReading.NOT_READ
        assert sink.of("s-1") == [(None, 0)] * 4
        around.delete()
        source.failures["s-1"] = ErrorType.NOT_FOUND
        await around.until(80)
        assert around.summary()["reason"] is EndReason.GONE
        assert around.summary()["missed"] == 0
        assert around.kinds() == ["allocation", "ended", "summary"]


@pytest.mark.parametrize(("is_told", "reason"), [(False, EndReason.GONE), (True, EndReason.STOPPED)])
@in_virtual_time
async def test_readings_that_its_end_explains_were_not_missed(is_told, reason):
    async with usage_world(without_execd=True) as (around, source, _, _):
        place(around, "s-1")
        sandbox = around.start()
        before_ns = around.context.clock.now_ns()
        await around.until(15)
        assert around.provider.times("status") == [2.0]  # when it was last known to live
        since_ns = around.context.clock.now_ns()
        sandbox.progress.usage = UsageProgress(
            source=ResourceSource.DOCKER_STATS, missed=5, failed_in_a_row_ns=[before_ns, since_ns, since_ns + 1]
        )
        around.delete()
        source.failures["s-1"] = ErrorType.NOT_FOUND
        if is_told:
            around.stop()
        await around.until(40)
        assert around.summary()["reason"] is reason
        assert sandbox.progress.usage.missed == 3
        assert sandbox.progress.usage.failed_in_a_row_ns == []


@in_virtual_time
async def test_without_daemons_readings_a_paused_sandbox_is_read_on_once_it_is_resumed():
    async with usage_world(without_execd=True) as (around, source, sink, _):
        place(around, "s-1")
        sandbox = around.start()
        await around.until(15)
        around.provider["s-1"].state = SandboxState.PAUSED
        source.failures["s-1"] = ErrorType.NOT_FOUND
        await around.until(45)
        assert sandbox.progress.paused
        assert sink.of("s-1")[-1] == (ErrorType.PAUSED, 1)
        around.provider["s-1"].state = SandboxState.RUNNING
        source.failures.clear()
        await around.until(75)
        assert not sandbox.progress.paused
        assert sandbox.progress.end is None
        assert sink.of("s-1")[-1] == (None, 0)


@in_virtual_time
async def test_with_daemons_readings_a_usage_source_asks_nothing_of_the_control_plane():
    async with usage_world() as (around, source, _, _):
        place(around, "s-1")
        around.start()
        source.failures["s-1"] = ErrorType.NOT_FOUND
        await around.until(45)
        assert len(around.provider.times("status")) == 1  # for its expiry


RESTORED = {
    "after a good reading": (DOCKER, {"readings": 7, "last_reading_ns": at(-45)}, 4),
    "after a failed one": (DOCKER, {"readings": 7, "last_reading_ns": at(-65), "failed_in_a_row_ns": [at(-28)]}, 2),
    "within an interval": (DOCKER, {"readings": 7, "last_reading_ns": at(-8)}, 0),
    "of which nothing was read": (DOCKER, {}, 0),
    "which another source read": (ResourceSource.KUBERNETES_METRICS, {"readings": 7, "last_reading_ns": at(-45)}, 0),
}


@pytest.mark.parametrize(("source_before", "told", "missed"), RESTORED.values(), ids=RESTORED)
@in_virtual_time
async def test_what_was_due_while_no_poller_ran_is_missed_once(source_before, told, missed):
    async with usage_world() as (around, source, sink, _):
        place(around, "s-1")
        in_force = around.provider["s-1"].in_force
        progress = Progress(recorded_allocation=in_force, usage=UsageProgress(source=source_before, **told))
        times = {"start_ns": at(-1000), "end_ns": at(-1000), "received_ns": at(-1000)}
        record = StartRecord(keys=JoinKeys(sandbox_id="s-1", provider="opensandbox"))
        around.restore([StartEvent(trace_id=TRACE, span_id=b"\x05" * 8, **times, record=record)], {"s-1": progress})
        await around.until(25)
        assert source.asked("s-1")[0] == 0
        assert sink.of("s-1") == [(None, missed), (None, 0), (None, 0)]
