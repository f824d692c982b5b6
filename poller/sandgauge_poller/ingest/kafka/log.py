"""Writes to the topics that pollers share; a write is done once every replica in sync has it."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError
from sandgauge_poller.ingest.kafka.records import (
    DoneRecord,
    EventRecord,
    ProgressRecord,
    done_key,
    encode_record,
    event_key,
    progress_key,
    sandbox_of,
)
from sandgauge_poller.ingest.kafka.topics import Topics
from sandgauge_schemas.names import SpanOutcome

_AT_ONCE = 1000
"""Messages that wait for their acknowledgement at one time."""

_PATIENCE_S = 5.0
"""Whoever sent a span waits ten seconds for its answer."""


class SandboxLog:
    """The one writer of a poller; `error` is what the producer's failures are."""

    def __init__(self, producer: Any, topics: Topics, error: type[Exception]) -> None:
        self._producer = producer
        self._topics = topics
        self._error = error

    async def publish(self, events: Sequence[LifecycleEvent]) -> list[SpanOutcome]:
        """Write events to where their owners find them; raises NotStoredError. Repeats show at the owner alone."""
        await self._write(self._message(event) for event in events)
        return [SpanOutcome.ACCEPTED] * len(events)

    async def hand_over(self, records: Iterable[ProgressRecord | DoneRecord]) -> None:
        """Write what the owner of sandboxes knows of them; raises NotStoredError."""
        await self._write((self._topics.sandboxes, record.sandbox_id, *encode_record(record)) for record in records)

    async def erase(self, owner: str, sandbox_id: str, spans: Iterable[tuple[bytes, bytes]]) -> None:
        """Take away all that stands of a sandbox, its events by the ids of their spans; raises NotStoredError."""
        keys = [*(event_key(*span) for span in spans), progress_key(owner, sandbox_id)]
        await self._write((self._topics.sandboxes, sandbox_id, key, None) for key in keys)
        # Last: as long as an event stands, so does the word that the sandbox is done with.
        await self._write([(self._topics.sandboxes, sandbox_id, done_key(owner, sandbox_id), None)])

    def _message(self, event: LifecycleEvent) -> tuple[str, str | None, bytes, bytes | None]:
        sandbox_id = sandbox_of(event)
        topic = self._topics.inventory if sandbox_id is None else self._topics.sandboxes
        return topic, sandbox_id, *encode_record(EventRecord(event))

    async def _write(self, messages: Iterable[tuple[str, str | None, bytes, bytes | None]]) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._send(messages)
        except (self._error, TimeoutError, AssertionError) as error:  # the last of a partition that is not there
            raise NotStoredError(f"Kafka: {type(error).__name__}") from error

    async def _send(self, messages: Iterable[tuple[str, str | None, bytes, bytes | None]]) -> None:
        under_way = []
        for topic, sandbox_id, key, value in messages:
            partition = 0 if sandbox_id is None else self._topics.partition_of(sandbox_id)
            under_way.append(await self._producer.send(topic, key=key, value=value, partition=partition))
            if len(under_way) == _AT_ONCE:
                await asyncio.gather(*under_way)
                under_way.clear()
        await asyncio.gather(*under_way)
