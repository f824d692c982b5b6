"""What a real broker may be set to: TLS and a password, and topics that somebody else made."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from aiokafka.admin import NewPartitions

from sandgauge_poller.config import Kafka
from sandgauge_poller.doctor import kafka as doctor_of_kafka
from sandgauge_poller.ingest.kafka import client
from sandgauge_poller.ingest.kafka.client import KafkaClients, KafkaUnavailableError
from sandgauge_poller.ingest.kafka.topics import open_topics
from support.certificate import make_certificate
from support.kafka_broker import PASSWORD, USER

pytestmark = pytest.mark.integration


def secured(broker, group, *, authority=None, address=None, password=PASSWORD):
    return Kafka.model_validate(
        {
            "brokers": [address or broker.secured_address],
            "topic": f"{group}-lifecycle",
            "group_id": group,
            "tls": {"enabled": True, "ca_file": str(authority or broker.authority)},
            "auth": {"sasl": {"username": USER, "password": password}},
        }
    )


async def refusal(kafka):
    with pytest.raises(KafkaUnavailableError) as refused:
        await open_topics(KafkaClients(kafka), kafka)
    return str(refused.value)


async def test_topics_are_made_over_tls_with_a_password(broker, group):
    kafka = secured(broker, group)
    assert (await open_topics(KafkaClients(kafka), kafka)).sandboxes == f"{group}-sandboxes"


async def test_a_wrong_password_is_named_and_not_shown(broker, group):
    said = await refusal(secured(broker, group, password="not-this-one"))
    assert said == (
        f"ingest.kafka.auth.sasl: {broker.secured_address} refuses the poller (SaslAuthenticationFailed);"
        " write the mechanism, username and password that the brokers know"
    )


async def test_a_broker_that_another_authority_vouches_for_is_named(broker, group, tmp_path):
    said = await refusal(secured(broker, group, authority=make_certificate(tmp_path)))
    assert said.startswith(f"ingest.kafka.tls: the certificate of {broker.secured_address} is not trusted (")
    assert said.endswith("; name the authority that signed it as ca_file, or in brokers a host that it is made out to")


async def test_a_port_without_tls_is_named(broker, group):
    said = await refusal(secured(broker, group, address=broker.address))
    assert said.startswith(f"ingest.kafka.brokers: {broker.address} cannot be used")


async def test_a_port_that_asks_for_tls_is_named_with_the_keys_to_look_at(broker, group):
    said = await refusal(Kafka(brokers=(broker.secured_address,), group_id=group))
    assert said.endswith("where the brokers ask for TLS or a password, set ingest.kafka.tls and ingest.kafka.auth")


def test_the_doctor_names_a_wrong_password(broker, group):
    (finding,) = doctor_of_kafka.examine(secured(broker, group, password="not-this-one"))
    assert str(finding).startswith(f"fail  Kafka: ingest.kafka.auth.sasl: {broker.secured_address} refuses the poller")


async def made_by_somebody_else(broker, group, **settings):
    """Make the topic of sandboxes as somebody might who does not know what it is for."""
    kafka = Kafka(brokers=(broker.address,), group_id=group, topic=f"{group}-lifecycle")
    clients = KafkaClients(kafka)
    admin = await clients.started(clients.admin())
    await admin.create_topics([clients.new_topic(f"{group}-sandboxes", 4, **settings)])
    async with asyncio.timeout(60):
        while f"{group}-sandboxes" not in await admin.list_topics():  # noqa: ASYNC110  # brokers have no event
            await asyncio.sleep(0.05)
    await admin.close()
    return kafka


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_a_topic_that_forgets_sandboxes_is_refused_with_the_cure(broker, group, policy):
    kafka = await made_by_somebody_else(broker, group, **{"cleanup.policy": policy})
    cure = f"--alter --topic {group}-sandboxes --add-config cleanup.policy=compact"
    said = await refusal(kafka)
    assert said.startswith(f"ingest.kafka: topic {group}-sandboxes has cleanup.policy={policy}, so ")
    assert said.endswith(cure)


async def test_a_topic_that_is_compacted_is_taken(broker, group):
    kafka = await made_by_somebody_else(broker, group, **{"cleanup.policy": "compact"})
    assert (await open_topics(KafkaClients(kafka), kafka)).partitions == 4


async def test_partitions_that_a_topic_newly_gets_are_read_without_a_restart(broker, group, monkeypatch):
    monkeypatch.setattr(client, "_LOOK_AROUND_S", 0.5)
    kafka = await made_by_somebody_else(broker, group, **{"compression.type": "gzip"})
    clients, topic = KafkaClients(kafka), f"{group}-sandboxes"
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        consumer = await clients.started(clients.consumer(group))
        stack.push_async_callback(consumer.stop)
        consumer.subscribe([topic])
        while len(consumer.assignment()) < 4:
            await consumer.getmany(timeout_ms=200)
        admin = await clients.started(clients.admin())
        await admin.create_partitions({topic: NewPartitions(5)})
        await admin.close()
        producer = await clients.started(clients.producer())
        stack.push_async_callback(producer.stop)
        await producer.send_and_wait(topic, key=b"key", value=b"in the new one", partition=4)
        batch = {}
        while not batch:
            batch = await consumer.getmany(timeout_ms=200)
    assert [message.value for messages in batch.values() for message in messages] == [b"in the new one"]


def test_the_doctor_tells_of_a_topic_that_forgets(broker, group):
    kafka = asyncio.run(made_by_somebody_else(broker, group))
    let_in, forgets = map(str, doctor_of_kafka.examine(kafka))
    assert let_in.startswith("pass  Kafka: its brokers let this machine in")
    assert forgets.startswith(f"fail  Kafka: topic {group}-sandboxes has cleanup.policy=delete, so ")
    assert forgets.endswith(f"--alter --topic {group}-sandboxes --add-config cleanup.policy=compact")
