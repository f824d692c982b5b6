"""A member of the group with made-up brokers: what it does when they fall silent."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sandgauge_poller.ingest.events import NotStoredError, StartEvent
from sandgauge_poller.ingest.kafka import membership as kafka_membership
from sandgauge_poller.ingest.kafka.membership import Membership
from sandgauge_poller.ingest.kafka.records import EventRecord, encode_record
from sandgauge_poller.ingest.kafka.topics import Share, Topics
from sandgauge_schemas.records import JoinKeys, StartRecord

TOPICS = Topics("lifecycle", "sandboxes", "inventory", 4)
KEYS = JoinKeys(sandbox_id="s", provider="opensandbox")


class BrokerError(Exception):
    """What the client's failures are."""


def start(number):
    span_id = bytes([number]) * 8
    return StartEvent(trace_id=b"\x01" * 16, span_id=span_id, received_ns=1, record=StartRecord(keys=KEYS))


def message(number, offset):
    key, value = encode_record(EventRecord(start(number)))
    return SimpleNamespace(key=key, value=value, offset=offset)


class World:
    """Brokers, a clock and an owner in one."""

    error = BrokerError

    def __init__(self):
        self.now = 0.0
        self.said = []
        self.batches = asyncio.Queue()
        self.ends = dict.fromkeys(range(4), 0)
        self.share = Share(TOPICS)
        self.partitions = 4
        self.takes_messages = True
        self.member = Membership(
            self,
            self,
            self.share,
            self,
            open_topics=self.open_topics,
            hold_at_most_s=15.0,
            monotonic=lambda: self.now,
        )

    async def open_topics(self):
        self.said.append("open topics")
        return replace(TOPICS, partitions=self.partitions)

    def partitions_for_topic(self, topic):
        assert topic == "sandboxes"
        return set(range(self.partitions)) or None

    def partition(self, _, number):
        return Partition(number)

    def listener(self, revoked, given):
        self.revoke, self.give = revoked, given

    def subscribe(self, topics, listener):
        assert topics == ["sandboxes"]

    async def getmany(self, **_):
        await asyncio.sleep(0)
        return {} if self.batches.empty() else self.batches.get_nowait()

    async def beginning_offsets(self, partitions):
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions):
        return {partition: self.ends[partition.partition] for partition in partitions}

    def seek(self, partition, offset):
        self.said.append(("seek", partition.partition, offset))

    async def commit(self, offsets):
        self.said.append(("commit", {partition.partition: offset for partition, offset in offsets.items()}))

    async def hold(self):
        self.said.append("hold")

    def go_on(self):
        self.said.append("go on")

    async def take_over(self, contents):
        self.said.append(("take over", contents.events))

    async def let_go(self, partitions):
        if partitions:
            self.said.append(("let go", partitions))

    async def write_anew(self, partitions):
        if not self.takes_messages:
            raise NotStoredError("Kafka: gone")
        self.said.append(("write anew", partitions))

    async def follow(self, events):
        if events:
            self.said.append(("follow", list(events)))


class Partition(SimpleNamespace):
    def __init__(self, partition):
        super().__init__(partition=partition)

    def __hash__(self):
        return self.partition


@pytest.fixture
async def world():
    made = World()
    running = asyncio.create_task(made.member.run())
    await asyncio.sleep(0)
    yield made
    running.cancel()


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # the world has no event
            await asyncio.sleep(0)


async def test_a_partition_is_read_from_the_start_and_then_followed(world):
    world.ends[2] = 5
    await world.give({2})
    await until(lambda: "go on" in world.said)
    world.batches.put_nowait({Partition(2): [message(1, 3)]})
    world.batches.put_nowait({Partition(2): [message(1, 3), message(2, 4)]})
    await until(lambda: ("commit", {2: 5}) in world.said)
    assert ("take over", [start(1), start(2)]) in world.said
    assert world.share.owned == {2}
    world.batches.put_nowait({Partition(2): [message(3, 5)]})
    await until(lambda: ("commit", {2: 6}) in world.said)
    assert ("follow", [start(3)]) in world.said


async def test_what_another_has_now_is_let_go_before_anything_goes_on(world):
    await world.give({0, 1})
    await until(lambda: world.share.owned == {0, 1})
    world.said.clear()
    await world.revoke({0, 1})
    await world.give({1, 2})
    await until(lambda: world.share.owned == {1, 2})
    assert world.said[:2] == ["hold", ("let go", {0})]
    assert world.said.index("go on") > 1


async def test_a_change_that_does_not_come_stops_readings_for_a_while_only(world, caplog):
    await world.give({0})
    await until(lambda: world.share.owned == {0})
    await world.revoke({0})
    world.said.clear()
    world.now = 15.1
    await until(lambda: "go on" in world.said)
    assert world.share.owned == {0}
    assert "reads on what it had" in caplog.text


async def test_a_log_without_its_last_words_comes_to_an_end(world):
    world.ends[3] = 9
    await world.give({3})
    await until(lambda: "go on" in world.said)
    world.batches.put_nowait({Partition(3): [message(1, 4)]})
    await until(lambda: ("commit", {3: 5}) in world.said)
    assert world.share.owned == set()
    world.now = 5.1
    await until(lambda: world.share.owned == {3})
    assert ("take over", [start(1)]) in world.said


async def test_while_the_topic_is_not_whole_nothing_is_let_go_and_the_cure_is_named(world, caplog):
    await world.give({0, 1})
    await until(lambda: world.share.owned == {0, 1})
    world.partitions = 1
    world.said.clear()
    await world.revoke({0, 1})
    await world.give({0})
    await until(lambda: "go on" in world.said)
    assert world.said == ["hold", "open topics", "go on"]
    assert world.share.owned == {0, 1}
    assert "topic sandboxes is not whole (it has 1 partitions); until it has 4 partitions (kafka-topics" in caplog.text


async def test_a_topic_that_is_gone_is_made_again_before_anything_is_let_go(world):
    await world.give({0, 1})
    await until(lambda: world.share.owned == {0, 1})
    world.partitions = 0
    await world.revoke({0, 1})
    await world.give(set())
    await until(lambda: "open topics" in world.said)
    world.partitions = 4
    world.said.clear()
    await world.revoke(set())
    await world.give({0})
    await until(lambda: world.share.owned == {0})
    assert world.said[:3] == ["hold", ("write anew", {0, 1}), ("let go", {1})]


@pytest.mark.parametrize("is_seen_when_revoked", [True, False])
async def test_what_a_log_has_lost_is_written_anew_before_it_is_let_go(world, is_seen_when_revoked):
    world.ends[0] = world.ends[1] = 3
    await world.give({0, 1})
    await until(lambda: "go on" in world.said)
    world.batches.put_nowait({Partition(0): [message(1, 2)], Partition(1): [message(2, 2)]})
    await until(lambda: world.share.owned == {0, 1})
    world.said.clear()
    world.ends[1] = 0 if is_seen_when_revoked else 3
    await world.revoke({0, 1})
    world.ends[1] = 0
    await world.give({0})
    await until(lambda: world.share.owned == {0})
    assert world.said[:3] == ["hold", ("write anew", {1}), ("let go", {1})]


async def test_while_it_cannot_be_written_anew_readings_go_on(world, monkeypatch):
    monkeypatch.setattr(kafka_membership, "_RETRY_S", 0.0)
    await world.give({0, 1})
    await until(lambda: world.share.owned == {0, 1})
    world.partitions = 0
    await world.revoke({0, 1})
    world.partitions, world.takes_messages = 4, False
    world.said.clear()
    await world.give({0})
    await until(lambda: "go on" in world.said)
    assert world.share.owned == {0, 1}
    world.takes_messages = True
    await until(lambda: world.share.owned == {0})
    assert world.said.index(("write anew", {0, 1})) < world.said.index(("let go", {1}))


async def test_a_log_that_begins_again_is_written_anew(world):
    world.ends[0] = 3
    await world.give({0})
    await until(lambda: "go on" in world.said)
    world.batches.put_nowait({Partition(0): [message(1, 2)]})
    await until(lambda: world.share.owned == {0})
    world.batches.put_nowait({Partition(0): [message(2, 0)]})
    await until(lambda: ("follow", [start(2)]) in world.said)
    assert ("write anew", {0}) in world.said


async def test_brokers_in_trouble_are_asked_again(world, monkeypatch):
    monkeypatch.setattr(kafka_membership, "_RETRY_S", 0.0)

    async def no_answer(_):
        raise BrokerError

    monkeypatch.setattr(world, "end_offsets", no_answer)
    await world.give({0})
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.share.owned == set()
    monkeypatch.undo()
    await until(lambda: world.share.owned == {0})
