"""The topic of requests and rollouts, which every poller reads as a whole: they are about no single sandbox."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError
from sandgauge_poller.ingest.kafka.client import KafkaClients
from sandgauge_poller.ingest.kafka.records import EventRecord, UnreadableRecordError, decode_record

logger = logging.getLogger(__name__)

_MOST_MESSAGES = 500
_WAIT_MS = 500
_RETRY_S = 1.0
_QUIET_TURNS = 10
"""A log whose last messages are past their time never seems to come to its end: after so many empty looks it has."""

Commit = Callable[[Sequence[LifecycleEvent]], Awaitable[object]]
"""Store events; raises NotStoredError."""


class Inventory:
    """One reader of its own for each state folder: its offset moves once the folder has what is before it."""

    def __init__(self, clients: KafkaClients, consumer: Any, topic: str, commit: Commit) -> None:
        self._clients = clients
        self._consumer = consumer
        self._partition = clients.partition(topic, 0)
        self._commit = commit

    async def catch_up(self) -> None:
        """Read what there is, so that of no sandbox that is followed a request or rollout is unknown that could be."""
        self._consumer.assign([self._partition])
        quiet = 0
        while quiet < _QUIET_TURNS:
            try:
                end = (await self._consumer.end_offsets([self._partition]))[self._partition]
                if await self._consumer.position(self._partition) >= end:
                    return
            except self._clients.error as error:
                await self._after(error)
            quiet = 0 if await self._step() else quiet + 1

    async def run(self) -> None:
        """Read on for ever; ends by cancellation."""
        while True:
            await self._step()

    async def _step(self) -> int:
        """Read a batch and return how many messages it had."""
        try:
            batch = await self._consumer.getmany(timeout_ms=_WAIT_MS, max_records=_MOST_MESSAGES)
            messages = [message for each in batch.values() for message in each]
            if messages:
                await self._store([event for message in messages if (event := _event(message)) is not None])
                await self._consumer.commit()
        except self._clients.error as error:
            await self._after(error)
            return 0
        return len(messages)

    async def _after(self, error: Exception) -> None:
        logger.warning("the topic of requests and rollouts: %s; it is read on", type(error).__name__)
        await asyncio.sleep(_RETRY_S)

    async def _store(self, events: Sequence[LifecycleEvent]) -> None:
        while True:
            try:
                await self._commit(events)
            except NotStoredError as error:
                logger.warning("requests and rollouts cannot be kept (%s); they are tried again", error)
                await asyncio.sleep(_RETRY_S)
            else:
                return


def _event(message: Any) -> LifecycleEvent | None:
    try:
        record = decode_record(message.key or b"", message.value or b"")
    except UnreadableRecordError as error:
        logger.warning("a message in the topic of requests and rollouts is unreadable (%s) and left out", error)
        return None
    return record.event if isinstance(record, EventRecord) else None
