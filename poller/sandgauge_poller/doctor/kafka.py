"""Kafka, through which several pollers share a fleet: who is let in, is the feed there, and is nothing forgotten."""

import asyncio
from collections.abc import Iterator

from sandgauge_poller.config import Kafka
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.ingest.kafka.client import KafkaClients, KafkaUnavailableError
from sandgauge_poller.ingest.kafka.compaction import Complaint, complaint
from sandgauge_poller.ingest.kafka.topics import sandboxes_topic

_WHAT = "Kafka"


def examine(kafka: Kafka) -> Iterator[Finding]:
    """Yield what was found; nothing without brokers."""
    if not kafka.brokers:
        return
    try:
        topics, found = asyncio.run(_look(kafka))
    except KafkaUnavailableError as error:
        detail, _, cure = str(error).partition("; ")
        yield failed(_WHAT, detail, cure)
        return
    standing = "is there" if kafka.topic in topics else "will be made by the first poller"
    yield passed(_WHAT, f"its brokers let this machine in, and topic {kafka.topic} {standing}")
    if found is not None:
        yield (failed if found.is_known else warned)(_WHAT, found.detail, found.cure)


async def _look(kafka: Kafka) -> tuple[set[str], Complaint | None]:
    """Return the names of all topics, and what is wrong with that of the sandboxes; raises KafkaUnavailableError."""
    clients = KafkaClients(kafka)
    admin = await clients.started(clients.admin())
    try:
        topics = set(await admin.list_topics())
        sandboxes = sandboxes_topic(kafka)
        return topics, await complaint(clients, admin, sandboxes) if sandboxes in topics else None
    except clients.error as error:
        cure = "let the poller describe topics, and look at ingest.kafka.auth"
        raise KafkaUnavailableError(f"does not list its topics ({type(error).__name__}); {cure}") from error
    finally:
        await admin.close()
