"""What is written for a next owner, and when."""

import asyncio

import pytest

from sandgauge_poller.export.handover import READINGS_A_TICK, HandedOver
from sandgauge_poller.ingest.events import NotStoredError
from sandgauge_poller.ingest.kafka.records import DoneRecord, ProgressRecord
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.progress import Progress, load_progress
from sandgauge_poller.tracking.routing import RouteOutcome

NOW_NS = 10**18


class Recorder:
    """A sink that records nothing."""

    def __getattr__(self, _):
        async def record(*_, **__):
            pass

        return record


class World:
    def __init__(self):
        self.now = 1000.0
        self.written = []
        self.is_up = True
        self.followed = {}
        clock = Clock(now_ns=lambda: NOW_NS, monotonic=lambda: self.now)
        self.handed_over = HandedOver(Recorder(), self.followed, self.write, clock)

    async def write(self, records):
        if not self.is_up:
            raise NotStoredError("Kafka: gone")
        self.written += records

    async def read(self, sandbox):
        await self.handed_over.sample(sandbox, None, 0, is_final=False)

    def follow(self, sandbox_id, **progress):
        key = SandboxKey("training", sandbox_id)
        self.followed[key] = Tracked(key, "training", RouteOutcome.MATCHED, progress=Progress(**progress))
        return self.followed[key]


@pytest.fixture
async def world():
    made = World()
    running = asyncio.create_task(made.handed_over.run())
    yield made
    running.cancel()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # the condition is the world's, which has no event
            await asyncio.sleep(0.01)


async def test_a_turn_in_its_life_is_written_at_once(world):
    sandbox = world.follow("s", readings=3)
    await world.handed_over.ended(sandbox)
    await until(lambda: world.written)
    (record,) = world.written
    assert (record.owner, record.sandbox_id, record.updated_ns) == ("training", "s", NOW_NS)
    assert load_progress(record.progress) == sandbox.progress


async def test_a_reading_is_written_with_the_next_tick(world):
    await world.read(world.follow("s"))
    await until(lambda: len(world.written) == 1)
    await world.read(world.follow("s"))
    world.now += 1
    await until(lambda: len(world.written) == 2)


async def test_a_turn_does_not_hurry_the_readings_of_others():
    world = World()
    for sandbox_id in ("s", "t"):
        await world.read(world.follow(sandbox_id))
        await world.handed_over.changed(world.follow("u"))
        await world.handed_over.write_due()
    assert [record.sandbox_id for record in world.written] == ["s", "u", "u"]
    world.now += 1
    await world.handed_over.write_due()
    assert world.written[-1].sandbox_id == "t"


@pytest.mark.parametrize(
    ("sandboxes", "ticks"),
    [(READINGS_A_TICK, 1), (READINGS_A_TICK + 1, 2), (60 * READINGS_A_TICK, 60), (90 * READINGS_A_TICK, 60)],
)
async def test_of_many_each_has_its_turn_within_a_minute(sandboxes, ticks):
    world = World()
    for number in range(sandboxes):
        await world.read(world.follow(str(number)))
    everyone = set(map(str, range(sandboxes)))
    for tick in range(ticks):
        assert len(world.written) < sandboxes, f"all after {tick} ticks"
        await world.handed_over.write_due()
        await world.read(world.followed[SandboxKey("training", "0")])  # whoever is read again waits behind the others
        world.now += 1
    assert {record.sandbox_id for record in world.written} == everyone


async def test_all_there_is_is_written_when_it_must_be(world):
    await world.read(world.follow("s"))
    await world.read(world.follow("t"))
    await world.handed_over.flush()
    assert {record.sandbox_id for record in world.written} == {"s", "t"}
    await world.handed_over.flush()
    assert len(world.written) == 2


async def test_what_cannot_be_written_is_tried_again(world, caplog):
    world.is_up = False
    await world.handed_over.ended(world.follow("s"))
    with pytest.raises(NotStoredError):
        await world.handed_over.flush()
    await until(lambda: "cannot be handed over" in caplog.text)
    world.is_up = True
    await until(lambda: world.written)


async def test_that_a_sandbox_is_done_with_is_written_instead_of_what_was_seen(world):
    sandbox = world.follow("s")
    await world.read(sandbox)
    world.handed_over.done(sandbox.key, 5)
    await until(lambda: world.written)
    assert world.written == [DoneRecord("training", "s", 5)]
    assert world.handed_over.graves == {sandbox.key: 5}


async def test_what_another_follows_is_forgotten(world):
    world.is_up = False
    sandbox = world.follow("s")
    await world.handed_over.ended(sandbox)
    world.handed_over.forget(sandbox.key)
    world.is_up = True
    await world.handed_over.ended(world.follow("t"))
    await until(lambda: world.written)
    assert [type(record) for record in world.written] == [ProgressRecord]
    assert world.written[0].sandbox_id == "t"


async def test_of_what_another_follows_by_now_nothing_is_written(world):
    sandbox = world.follow("s")
    await world.read(sandbox)
    del world.followed[sandbox.key]
    await world.read(world.follow("t"))
    await world.handed_over.flush()
    assert [record.sandbox_id for record in world.written] == ["t"]


async def test_a_summary_is_not_heard_of_before_it_is_kept(world, monkeypatch):
    sandbox, kept = world.follow("s"), asyncio.Event()

    async def summary(_):
        sandbox.progress.summarised = True
        await kept.wait()

    monkeypatch.setattr(world.handed_over._sink, "summary", summary, raising=False)
    await world.read(sandbox)
    summarising = asyncio.create_task(world.handed_over.summary(sandbox))
    await asyncio.sleep(0)
    await world.handed_over.flush()
    assert world.written == []
    kept.set()
    await summarising
    await until(lambda: world.written)
    assert load_progress(world.written[0].progress).summarised
