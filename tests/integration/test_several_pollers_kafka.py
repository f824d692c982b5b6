"""Several pollers that share a fleet through a real Kafka broker."""

import secrets
import time

import pytest

from sandgauge_schemas import names
from support.delivered import assert_one_form_of_each_span, ids_in
from support.kafka_broker import kafka_broker
from support.kafka_fleet import (
    PARTITIONS,
    SUMMARY,
    TIMEOUT_S,
    KafkaFleet,
    Replica,
    double_reads,
    readers,
    sandbox_of,
    wait_until_all_are_read,
)
from support.simulated_osb import osb_in_thread
from support.waiting import wait_until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def osb():
    with osb_in_thread() as deployment:
        yield deployment


@pytest.fixture
def group():
    return f"group-{secrets.token_hex(4)}"


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


def test_an_owner_that_is_killed_costs_no_event_and_its_sandboxes_are_read_on(fleet, make_replica):
    first, second = make_replica(), make_replica()
    first.poller.start()
    second.poller.start()
    settled(first, second)
    fleet.create(40)
    everything = set(fleet.traces)
    print(f"first readings after {wait_until_all_are_read([first, second], everything):.1f} s")
    first.poller.kill()
    fleet.create(10)
    print(f"read by the other {wait_until_all_are_read([second], set(fleet.traces)):.1f} s after the kill")
