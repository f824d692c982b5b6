"""A real Collector with the shipped overlay, a real broker and a poller: what Gym sends arrives at who reads."""

import asyncio
import json
import secrets

import pytest

from sandgauge_poller.config import Kafka
from sandgauge_poller.ingest.kafka.client import KafkaClients
from sandgauge_schemas import names
from support.feed import GYM, rollout_span, start_span, stop_span
from support.kafka_broker import PASSWORD, USER, kafka_broker
from support.kafka_fleet import LIMITS, PARTITIONS, SAMPLE, SUMMARY, TIMEOUT_S, Replica, sandbox_of
from support.otlp_json import from_resource, traces
from support.real_collector import FLEET, KAFKA, QUANTITIES, collector, complaints, send
from support.simulated_osb import osb_in_thread

pytestmark = pytest.mark.integration

TRIED_AGAIN = ("UNKNOWN_TOPIC_OR_PARTITION", "context deadline exceeded")
"""What the Collector says of records without a topic: no topic, or at a broker that is busy, no answer in time."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with kafka_broker(tmp_path_factory.mktemp("kafka"), makes_topics=True) as running:
        yield running


def of_brokers_with_tls(folder, broker):
    """Return an overlay as docs/several-pollers.md has it."""
    overlay = folder / "kafka-tls.yaml"
    sasl = {"mechanism": "PLAIN", "username": USER, "password": PASSWORD}
    exporter = {"tls": {"ca_file": str(broker.authority)}, "auth": {"sasl": sasl}}
    overlay.write_text(json.dumps({"exporters": {"kafka/pollers": exporter}}))
    return overlay


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "secured"])
def test_spans_go_from_gym_by_way_of_a_topic_to_a_summary(tmp_path, broker, group, make_otlp_sink, secured):
    store, trace = make_otlp_sink(), secrets.token_hex(16)
    address = broker.secured_address if secured else broker.address
    own = [of_brokers_with_tls(tmp_path, broker)] if secured else []
    running = collector(
        tmp_path / "collector",
        *(FLEET, KAFKA, QUANTITIES, *own),
        traces=store.endpoint,
        metrics=store.endpoint,
        settings={"KAFKA_BROKERS": address, "KAFKA_TOPIC": f"{group}-lifecycle"},
    )
    with osb_in_thread() as osb, running:
        replica = Replica(tmp_path / "poller", broker, group, osb, make_otlp_sink(), secured=secured)
        sandbox_id = osb.create(limits=LIMITS)
        # Before there is a topic: the Collector keeps what it has until a poller has made it.
        assert send(running, traces(from_resource(GYM, start_span(sandbox_id, trace_id=trace)))) == 200
        with replica.poller:
            replica.sink.wait_for(lambda sink: sink.spans(SAMPLE), TIMEOUT_S)
            osb.delete(sandbox_id)
            over = [stop_span(sandbox_id), rollout_span(trace, "rollout-1")]
            assert send(running, traces(from_resource(GYM, *over))) == 200
            replica.sink.wait_for(lambda sink: sink.spans(SUMMARY), TIMEOUT_S)
    (summary,) = replica.sink.spans(SUMMARY)
    assert (sandbox_of(summary), summary.trace_id) == (sandbox_id, trace)
    assert summary.attributes[names.NEMO_GYM_ROLLOUT_ID] == "rollout-1"
    assert summary.attributes[names.NEMO_GYM_SANDBOX_END_REASON] == "stopped"
    assert replica.poller.complaints() == []
    # It was tried again for as long as there was no topic, and nobody else made it.
    assert [line for line in complaints(running) if not any(reason in line for reason in TRIED_AGAIN)] == []
    assert asyncio.run(partitions(broker, f"{group}-lifecycle")) == PARTITIONS


async def partitions(broker, topic):
    clients = KafkaClients(Kafka(brokers=(broker.address,)))
    admin = await clients.started(clients.admin())
    (found,) = await admin.describe_topics([topic])
    await admin.close()
    return len(found["partitions"])
