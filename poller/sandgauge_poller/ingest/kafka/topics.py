"""The topics: their names, what makes them, and which partition a sandbox is in."""

import asyncio
import logging
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from sandgauge_poller.config import Kafka
from sandgauge_poller.ingest.kafka.client import KafkaClients, KafkaUnavailableError
from sandgauge_poller.ingest.kafka.compaction import complaint

logger = logging.getLogger(__name__)

_DAY_MS = str(24 * 3600 * 1000)
_TEN_MINUTES_MS = str(600 * 1000)
_READABLE = {"compression.type": "gzip"}
"""Brokers keep messages as they came, or as their own setting says; the client reads nothing else than gzip."""
_LOOKS = 100
_BETWEEN_LOOKS_S = 0.1
"""A topic that was just made has leaders a moment later."""
_EXISTS = 36
"""Kafka's code for a topic that is there already, which is as good."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of the three topics, and how many partitions that of the sandboxes has."""

    lifecycle: str
    """What a Collector writes: requests with spans."""
    sandboxes: str
    """Compacted: the events of each sandbox in its own partition, and what its owner has seen of it."""
    inventory: str
    """Requests and rollouts, which every poller reads; kept for a day."""
    partitions: int

    def partition_of(self, sandbox_id: str) -> int:
        """Return the partition of a sandbox; the same on every machine and in every release."""
        digest = blake2b(sandbox_id.encode(), digest_size=8).digest()
        return int.from_bytes(digest) % self.partitions


@dataclass(slots=True)
class Share:
    """The partitions of the sandboxes topic that are this poller's at present."""

    topics: Topics
    owned: set[int] = field(default_factory=set)

    def owns(self, sandbox_id: str) -> bool:
        """Tell whether a sandbox is this poller's."""
        return self.topics.partition_of(sandbox_id) in self.owned


def sandboxes_topic(kafka: Kafka) -> str:
    """Return the name of the topic of sandboxes."""
    return f"{kafka.group_id}-sandboxes"


async def open_topics(clients: KafkaClients, kafka: Kafka) -> Topics:
    """Make the topics that are missing and return them.

    Raises:
        KafkaUnavailableError: they cannot be made, or the brokers would forget sandboxes that still run.

    """
    sandboxes, inventory = sandboxes_topic(kafka), f"{kafka.group_id}-inventory"
    wanted = [
        clients.new_topic(kafka.topic, kafka.partitions, **_READABLE, **{"retention.ms": _DAY_MS}),
        clients.new_topic(
            sandboxes,
            kafka.partitions,
            # Only closed segments are compacted: closed so soon, what is read at a change of owners stays short.
            **_READABLE,
            **{"cleanup.policy": "compact", "segment.ms": _TEN_MINUTES_MS, "min.cleanable.dirty.ratio": "0.2"},
        ),
        clients.new_topic(inventory, 1, **_READABLE, **{"retention.ms": _DAY_MS}),
    ]
    admin = await clients.started(clients.admin())
    try:
        there = set(await admin.list_topics())
        missing = [topic for topic in wanted if topic.name not in there]
        if missing:
            await _make(admin, missing)
        count = await _partitions(admin, sandboxes)
        await _hold_to_compaction(clients, admin, sandboxes)
    except clients.error as error:
        raise KafkaUnavailableError(
            f"ingest.kafka: topics cannot be listed or made ({type(error).__name__}); make {kafka.topic}, {sandboxes}"
            f" (cleanup.policy=compact) and {inventory} (one partition), each with compression.type=gzip, or let the"
            " poller make them"
        ) from error
    finally:
        await admin.close()
    return Topics(kafka.topic, sandboxes, inventory, count)


async def _hold_to_compaction(clients: KafkaClients, admin: Any, topic: str) -> None:
    found = await complaint(clients, admin, topic)
    if found is not None and found.is_known:
        raise KafkaUnavailableError(f"ingest.kafka: {found.detail}; {found.cure}")
    if found is not None:
        logger.warning("%s; %s", found.detail, found.cure)


async def _make(admin: Any, missing: list[object]) -> None:
    answer = await admin.create_topics(missing)
    for name, code, *_ in answer.topic_errors:
        if code == 0:
            logger.info("topic %s is made", name)
        elif code != _EXISTS:
            raise KafkaUnavailableError(
                f"ingest.kafka: topic {name} cannot be made (Kafka's error {code}); make it, or let the poller make it"
            )


async def _partitions(admin: Any, topic: str) -> int:
    """Return how many partitions a topic has, once each has a leader."""
    for _ in range(_LOOKS):
        (found,) = await admin.describe_topics([topic])
        partitions = found["partitions"]
        if partitions and all(partition["leader"] >= 0 and not partition["error_code"] for partition in partitions):
            return len(partitions)
        await asyncio.sleep(_BETWEEN_LOOKS_S)
    raise KafkaUnavailableError(f"ingest.kafka: topic {topic} has partitions without a leader; look at the brokers")
