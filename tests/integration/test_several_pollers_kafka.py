"""Several pollers that share a fleet through a real Kafka broker."""

import asyncio
import time
from collections import Counter

import pytest

from sandgauge_poller.config import Kafka
from sandgauge_poller.doctor import kafka as doctor_of_kafka
from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.ingest.kafka.client import KafkaClients
from sandgauge_poller.ingest.kafka.membership import Contents
from sandgauge_poller.ingest.kafka.records import DoneRecord, ProgressRecord
from sandgauge_poller.shared_fleet import open_shared_log
from sandgauge_schemas import names
from sandgauge_schemas.records import JoinKeys, StartRecord
from support.delivered import assert_one_form_of_each_span, assert_series_rise_and_close_once
from support.feed import feed
from support.kafka_fleet import (
    PARTITIONS,
    SAMPLE,
    SUMMARY,
    TIMEOUT_S,
    KafkaFleet,
    Replica,
    Together,
    double_reads,
    longest_gap_s,
    owners,
    sandbox_of,
    wait_until_all_are_read,
)
from support.simulated_osb import osb_in_thread
from support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def osb():
    with osb_in_thread() as deployment:
        yield deployment


@pytest.fixture
def fleet(broker, group, osb):
    return KafkaFleet(broker, group, osb)


@pytest.fixture
def make_replica(tmp_path, broker, group, osb, make_otlp_sink):
    """Return pollers of the group, not started yet."""
    made = []

    def make():
        replica = Replica(tmp_path / str(len(made)), broker, group, osb, make_otlp_sink())
        made.append(replica)
        return replica

    yield make
    for replica in made:
        replica.poller.stop()


def settled(*replicas):
    """Wait until these pollers have all partitions between them."""

    def is_settled():
        shares = [replica.shares() for replica in replicas]
        return all(shares) and sum(share[-1] for share in shares) == PARTITIONS

    wait_until(is_settled, timeout_s=TIMEOUT_S, what="pollers that have all partitions between them")


def assert_one_owner_each(replicas, sandbox_ids):
    """Wait for two rounds of readings, and fail if two pollers share a sandbox."""
    since_ns = time.time_ns()
    for _ in range(2):
        wait_until_all_are_read(replicas, sandbox_ids)
    assert owners(replicas, since_ns) == dict.fromkeys(sandbox_ids, 1)


def assert_told_once(replicas, fleet):
    """Wait for the summaries; there is one for each sandbox, and it knows the rollout and what was requested."""
    together = Together(replicas)
    wait_until(
        lambda: {sandbox_of(span) for span in together.spans(SUMMARY)} >= set(fleet.traces),
        timeout_s=TIMEOUT_S,
        what="a summary of every sandbox",
    )
    summaries = together.spans(SUMMARY)
    assert sorted(map(sandbox_of, summaries)) == sorted(fleet.traces)
    for span in summaries:
        sandbox_id = sandbox_of(span)
        assert span.trace_id == fleet.traces[sandbox_id]
        assert span.attributes[names.NEMO_GYM_ROLLOUT_ID] == f"of-{sandbox_id}"
        assert span.attributes[names.NEMO_GYM_SANDBOX_REQUESTED_CPU] == 2.0
    return {sandbox_of(span): span.attributes for span in summaries}


def readings_not_in(summaries, replicas):
    """Return how many good readings there are beyond those that the summaries count."""
    readings = good_readings(replicas)
    counted = {id_: each[names.NEMO_GYM_SANDBOX_READINGS_COUNT] for id_, each in summaries.items()}
    return sum(max(0, readings[sandbox_id] - count) for sandbox_id, count in counted.items())


def good_readings(replicas):
    spans = Together(replicas).spans(SAMPLE)
    return Counter(sandbox_of(span) for span in spans if names.ERROR_TYPE not in span.attributes)


def test_an_owner_that_is_killed_costs_no_event_and_its_sandboxes_are_read_on(fleet, make_replica):
    replicas = first, second = make_replica(), make_replica()
    first.poller.start()
    second.poller.start()
    settled(first, second)
    orphans = fleet.create(30)
    for _ in range(4):
        wait_until_all_are_read(replicas, orphans)
    first.poller.kill()
    by_the_dead = len(first.readings())
    fleet.create(10)
    print(
        f"every sandbox is read by the other {wait_until_all_are_read([second], set(fleet.traces)):.1f} s after a kill"
    )
    first.poller.start()
    settled(first, second)
    assert_one_owner_each(replicas, set(fleet.traces))
    fleet.end(fleet.traces)
    second.poller.kill()  # with what is over and waits for its rollout
    fleet.finish_rollouts()
    summaries = assert_told_once(replicas, fleet)
    count, doubled = double_reads(replicas)
    print(f"{doubled} of {count} readings were made by two at a time")
    assert doubled <= count / 100
    untold = readings_not_in(summaries, replicas)
    print(f"{untold} readings are in no summary, of {by_the_dead} that were made by a poller until it was killed")
    assert untold < by_the_dead / 2


def test_a_poller_joins_and_another_leaves_with_nothing_lost_or_said_twice(fleet, make_replica):
    replicas = first, second = make_replica(), make_replica()
    first.poller.start()
    settled(first)
    sandbox_ids = fleet.create(40, rollout_known=True)
    wait_until_all_are_read([first], sandbox_ids)
    second.poller.start()
    settled(first, second)
    assert_one_owner_each(replicas, sandbox_ids)
    assert first.poller.stop() == 0
    settled(second)
    wait_until_all_are_read([second], sandbox_ids)
    print(f"longest time between two readings every 2 s: {longest_gap_s(replicas):.1f} s")
    fleet.end(sandbox_ids)
    summaries = assert_told_once(replicas, fleet)
    assert {each[names.NEMO_GYM_SANDBOX_END_REASON] for each in summaries.values()} == {"stopped"}
    first.poller.start()  # what waits in its outbox is sent
    assert first.poller.stop() == second.poller.stop() == 0
    together = Together(replicas)
    readings = {id_: each[names.NEMO_GYM_SANDBOX_READINGS_COUNT] for id_, each in summaries.items()}
    assert readings == good_readings(replicas)
    assert assert_series_rise_and_close_once(together) == sandbox_ids
    assert_one_form_of_each_span(together)
    count, doubled = double_reads(replicas)
    print(f"{doubled} of {count} readings were made by two at a time")
    assert doubled == 0
    for replica in replicas:
        assert replica.poller.complaints() == []


def test_a_broker_that_comes_back_finds_the_readings_going_on_and_no_event_lost(broker, fleet, make_replica):
    replicas = first, second = make_replica(), make_replica()
    first.poller.start()
    second.poller.start()
    settled(first, second)
    before = fleet.create(20)
    wait_until_all_are_read(replicas, before)
    broker.kill()
    wait_until_all_are_read(replicas, before)
    spans = fleet.conceive(10)
    with pytest.raises(AssertionError, match="cannot be stored just now"):
        feed(first.poller.endpoint, *spans)
    broker.start()
    fleet.tell(spans)  # as a Collector does that was asked to come again
    wait_until_all_are_read(replicas, set(fleet.traces))
    fleet.end(fleet.traces)
    fleet.finish_rollouts()
    assert_told_once(replicas, fleet)
    assert double_reads(replicas)[1] == 0


def test_a_topic_of_sandboxes_that_is_deleted_is_made_and_written_anew(broker, group, fleet, make_replica):
    replicas = first, second = make_replica(), make_replica()
    first.poller.start()
    second.poller.start()
    settled(first, second)
    before = fleet.create(20, rollout_known=True)
    for _ in range(3):
        wait_until_all_are_read(replicas, before)
    asyncio.run(delete_topic(broker, f"{group}-sandboxes"))
    wait_until_all_are_read(replicas, before)
    fleet.create(10, rollout_known=True)
    wait_until_all_are_read(replicas, set(fleet.traces))
    settled(first, second)
    wait_until(lambda: said(replicas, "written anew"), timeout_s=TIMEOUT_S, what="partitions that are written anew")
    first.poller.kill()
    wait_until_all_are_read([second], set(fleet.traces))
    fleet.end(fleet.traces)
    summaries = assert_told_once(replicas, fleet)
    assert min(each[names.NEMO_GYM_SANDBOX_READINGS_COUNT] for id_, each in summaries.items() if id_ in before) >= 3


def said(replicas, words):
    return any(words in entry["message"] for replica in replicas for entry in replica.poller.log())


async def delete_topic(broker, topic):
    clients = KafkaClients(Kafka(brokers=(broker.address,)))
    admin = await clients.started(clients.admin())
    await admin.delete_topics([topic])
    await admin.close()


async def test_what_is_erased_is_not_there_for_a_next_owner(broker, group):
    kafka = Kafka(brokers=(broker.address,), group_id=group, topic=f"{group}-lifecycle", partitions=PARTITIONS)
    keys = JoinKeys(sandbox_id="sandbox", provider="opensandbox")
    start = StartEvent(trace_id=b"\x01" * 16, span_id=b"\x02" * 8, received_ns=1, record=StartRecord(keys=keys))
    done, contents = DoneRecord("training", "sandbox", 5), Contents(end=0)
    async with open_shared_log(kafka) as shared:
        await shared.log.publish([start])
        await shared.log.hand_over([ProgressRecord("training", "sandbox", 3, "{}"), done])
        consumer = await shared.clients.started(shared.clients.consumer(f"{group}-test"))
        consumer.subscribe([shared.share.topics.sandboxes])

        async def read(until):
            async with asyncio.timeout(TIMEOUT_S):
                while not until():
                    for messages in (await consumer.getmany(timeout_ms=200)).values():
                        for message in messages:
                            assert message.partition == shared.share.topics.partition_of("sandbox")
                            contents.put(message.key, message.value)

        await read(lambda: len(contents.records) == 3)
        assert (contents.events, contents.done) == ([start], [done])
        await shared.log.erase("training", "sandbox", [(start.trace_id, start.span_id)])
        await read(lambda: not contents.records)
        await consumer.stop()


def test_the_doctor_is_let_in(broker):
    (finding,) = doctor_of_kafka.examine(Kafka(brokers=(broker.address,), topic="sandgauge-of-nobody"))
    assert str(finding) == (
        "pass  Kafka: its brokers let this machine in, and topic sandgauge-of-nobody will be made by the first poller"
    )
