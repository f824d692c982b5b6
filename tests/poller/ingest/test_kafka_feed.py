"""The lifecycle topic: messages as the Collector's kafka exporter 0.165.0 wrote them, and what becomes of others."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandgauge_poller.ingest.events import NotStoredError, StartEvent
from sandgauge_poller.ingest.intake import Intake
from sandgauge_poller.ingest.kafka import feed as kafka_feed
from sandgauge_poller.ingest.kafka.feed import LifecycleFeed
from sandgauge_poller.ingest.quarantine import Quarantine
from sandgauge_schemas.names import SpanOutcome

MESSAGE = (Path(__file__).parents[2] / "fixtures" / "ingest" / "kafka_exporter_message.pb").read_bytes()
NOW_NS = 1_764_500_002_000_000_000


class BrokerError(Exception):
    """What the client's failures are."""


class World:
    """A consumer of the given batches, and a store that fails as often as it is told."""

    def __init__(self, folder, batches, *, failures=0):
        self.batches, self.failures = list(batches), failures
        self.said = []
        self.asked_for_more = asyncio.Event()
        self.spans = Counter()
        metrics = SimpleNamespace(spans=self._count, conflict=lambda _: None)
        intake = Intake(self._commit, metrics, Quarantine(folder, lambda: NOW_NS), lambda: NOW_NS)
        self.feed = LifecycleFeed(self, intake, BrokerError)

    def _count(self, outcome, reason, count):
        self.spans[outcome.value] += count

    async def _commit(self, events):
        if self.failures:
            self.failures -= 1
            raise NotStoredError("no room")
        self.said += events
        return [SpanOutcome.ACCEPTED] * len(events)

    async def getmany(self, **_):
        if not self.batches:
            self.asked_for_more.set()  # it is done with all there was
            await asyncio.Event().wait()
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return {0: [SimpleNamespace(value=value) for value in batch]}

    async def commit(self):
        self.said.append("offsets")

    async def run(self):
        running = asyncio.create_task(self.feed.run())
        async with asyncio.timeout(60):
            await self.asked_for_more.wait()
        running.cancel()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(kafka_feed, "_RETRY_S", 0.0)


async def test_offsets_move_after_the_events_are_kept(tmp_path):
    world = World(tmp_path, [[MESSAGE]])
    await world.run()
    start, offsets = world.said
    assert isinstance(start, StartEvent)
    keys = start.record.keys
    assert (keys.sandbox_id, keys.request_id, keys.run_id, keys.provider) == (
        "sandbox-a",
        "wish",
        "run-7",
        "opensandbox",
    )
    assert start.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert offsets == "offsets"


async def test_what_cannot_be_kept_is_tried_again_and_nothing_passes_it(tmp_path):
    world = World(tmp_path, [[MESSAGE], [MESSAGE]], failures=3)
    await world.run()
    assert [type(said).__name__ for said in world.said] == ["StartEvent", "str"] * 2


async def test_a_message_that_is_none_stops_nothing(tmp_path):
    world = World(tmp_path, [[b"nonsense", None, MESSAGE]])
    await world.run()
    assert [type(said).__name__ for said in world.said] == ["StartEvent", "str"]
    assert world.spans == {"rejected": 1, "accepted": 1}


async def test_brokers_in_trouble_are_asked_again(tmp_path):
    world = World(tmp_path, [BrokerError(), [MESSAGE]])
    await world.run()
    assert len(world.said) == 2
