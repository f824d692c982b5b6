"""Kafka, through which several pollers share a fleet: do the brokers let them in, and is the feed's topic there."""

import asyncio
from collections.abc import Iterator

from sandgauge_poller.config import Kafka
from sandgauge_poller.doctor.finding import Finding, failed, passed
from sandgauge_poller.ingest.kafka.client import KafkaClients, KafkaUnavailableError

_WHAT = "Kafka"


def examine(kafka: Kafka) -> Iterator[Finding]:
    """Yield what was found; nothing without brokers."""
    if not kafka.brokers:
        return
    try:
        topics = asyncio.run(_topics(kafka))
    except KafkaUnavailableError as error:
        detail, _, cure = str(error).partition("; ")
        yield failed(_WHAT, detail, cure)
        return
    standing = "is there" if kafka.topic in topics else "will be made by the first poller"
    yield passed(_WHAT, f"its brokers let this machine in, and topic {kafka.topic} {standing}")


async def _topics(kafka: Kafka) -> set[str]:
    """Return the names of all topics; raises KafkaUnavailableError."""
    clients = KafkaClients(kafka)
    admin = await clients.started(clients.admin())
    try:
        return set(await admin.list_topics())
    except clients.error as error:
        cure = "let the poller describe topics, and look at ingest.kafka.auth"
        raise KafkaUnavailableError(f"does not list its topics ({type(error).__name__}); {cure}") from error
    finally:
        await admin.close()
