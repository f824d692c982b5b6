"""The lifecycle topic: what Collectors write, read in shares by the group of pollers."""

import asyncio
import logging
from typing import Any

from sandgauge_poller.ingest.events import NotStoredError
from sandgauge_poller.ingest.intake import Intake
from sandgauge_poller.ingest.refusal import PROTOBUF
from sandgauge_poller.ingest.spans import UndecodableError

logger = logging.getLogger(__name__)

_MOST_MESSAGES = 100
_WAIT_MS = 1000
_RETRY_S = 1.0


class LifecycleFeed:
    """Take message after message in; the group's offsets move once all of a batch is committed."""

    def __init__(self, consumer: Any, intake: Intake, error: type[Exception]) -> None:
        self._consumer = consumer
        self._intake = intake
        self._error = error

    async def run(self) -> None:
        """Read for ever; ends by cancellation."""
        while True:
            try:
                batch = await self._consumer.getmany(timeout_ms=_WAIT_MS, max_records=_MOST_MESSAGES)
                for messages in batch.values():
                    await asyncio.gather(*(self._take(message.value) for message in messages))
                if batch:
                    await self._consumer.commit()
            except self._error as error:
                # The share may be another's by now: whoever has it reads the batch again, which changes nothing.
                logger.warning("the lifecycle topic: %s; it is read on", type(error).__name__)
                await asyncio.sleep(_RETRY_S)

    async def _take(self, body: bytes | None) -> None:
        """Take a message until it is taken: what waits behind it is no better off without it."""
        while True:
            try:
                await self._intake.take(PROTOBUF, body or b"")
            except UndecodableError:
                return  # and counted: it will never be another
            except NotStoredError as error:
                logger.warning("spans cannot be kept (%s); they are tried again", error)
                await asyncio.sleep(_RETRY_S)
            except Exception:
                logger.exception("a message of the lifecycle topic could not be taken; it is tried again")
                await asyncio.sleep(_RETRY_S)
            else:
                return
