"""The Kafka client's errors: each names the key and the cure."""

import sys

import pytest

from sandgauge_poller.config import Kafka
from sandgauge_poller.ingest.kafka.client import KafkaClients, KafkaUnavailableError
from sandgauge_poller.ingest.kafka.topics import open_topics


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    with pytest.raises(KafkaUnavailableError, match=r"ingest\.kafka: needs the extra `kafka`; pip install"):
        KafkaClients(Kafka(brokers=("127.0.0.1:9",)))


async def test_without_a_broker_the_address_is_named(caplog):
    kafka = Kafka(brokers=("127.0.0.1:9",))
    with pytest.raises(KafkaUnavailableError, match=r"ingest\.kafka\.brokers: 127\.0\.0\.1:9 cannot be used"):
        await open_topics(KafkaClients(kafka), kafka)
    assert "ERROR" not in {record.levelname for record in caplog.records}
