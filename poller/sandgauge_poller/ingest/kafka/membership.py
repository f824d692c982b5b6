"""A poller as a member of the group that shares the topic of sandboxes: whose partition it is owns what is in it.

While shares change, all members hold: what each has seen is in the log before anyone is given anything new. So a new
owner reads its partitions from the start and knows what the former one knew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeGuard

from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError
from sandgauge_poller.ingest.kafka.client import KafkaClients, KafkaUnavailableError
from sandgauge_poller.ingest.kafka.records import (
    DoneRecord,
    EventRecord,
    ProgressRecord,
    Record,
    UnreadableRecordError,
    decode_record,
)
from sandgauge_poller.ingest.kafka.topics import Share, Topics

logger = logging.getLogger(__name__)

_WAIT_MS = 200
"""How long a look for messages takes at most: so soon a new share is taken up."""
_MOST_MESSAGES = 500
_RETRY_S = 1.0
_LOOK_S = 2.0
"""All members wait while one looks whether its log is still there."""
_QUIET_S = 5.0
"""A log whose last messages were compacted away never seems to come to its end: after so much silence it has."""

OpenTopics = Callable[[], Awaitable[Topics]]
"""Make the topics that are missing and return them; raises KafkaUnavailableError."""


class Owner(Protocol):
    """Whoever follows the sandboxes of this poller's partitions."""

    async def hold(self) -> None:
        """Begin no reading, and return once all that was seen is in the log, or cannot be brought there."""

    def go_on(self) -> None:
        """Read on."""

    async def take_over(self, contents: "Contents") -> None:
        """Follow the sandboxes of a partition; raises NotStoredError."""

    async def let_go(self, partitions: set[int]) -> None:
        """Follow the sandboxes of partitions no more."""

    async def write_anew(self, partitions: set[int]) -> None:
        """Write all that is known of the sandboxes of partitions, whose log is lost; raises NotStoredError."""

    async def follow(self, events: Sequence[LifecycleEvent]) -> None:
        """Take events about sandboxes that are followed; raises NotStoredError."""


@dataclass(slots=True)
class Contents:
    """What stands in a partition, as it is read from the start: of each key the last word."""

    end: int
    """Offset at which the log ended when it was begun."""
    records: dict[bytes, Record] = field(default_factory=dict)

    def put(self, key: bytes, value: bytes | None) -> None:
        """Take one message."""
        record, before = None if value is None else _decode(key, value), self.records.get(key)
        if record is None:
            self.records.pop(key, None)
        elif not (_is_progress(before) and _is_progress(record) and before.updated_ns > record.updated_ns):
            # A former owner's last word may have been held up on its way, and is then no news.
            self.records[key] = record

    @property
    def events(self) -> list[LifecycleEvent]:
        """The events, in no order."""
        return [record.event for record in self.records.values() if isinstance(record, EventRecord)]

    @property
    def progress(self) -> list[ProgressRecord]:
        """What was seen of sandboxes."""
        return [record for record in self.records.values() if isinstance(record, ProgressRecord)]

    @property
    def done(self) -> list[DoneRecord]:
        """Sandboxes that are done with."""
        return [record for record in self.records.values() if isinstance(record, DoneRecord)]


class Membership:
    """Read the partitions that are this poller's, and take up and give away what is in them."""

    def __init__(  # noqa: PLR0913  # its collaborators and its clock are passed in
        self,
        clients: KafkaClients,
        consumer: Any,
        share: Share,
        owner: Owner,
        *,
        open_topics: OpenTopics,
        hold_at_most_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._clients = clients
        self._consumer = consumer
        self._topic = share.topics.sandboxes
        self._share = share
        self._owner = owner
        self._open_topics = open_topics
        self._hold_at_most_s = hold_at_most_s
        self._monotonic = monotonic
        self._given: set[int] | None = None
        """The share that is to be taken up; None once it is."""
        self._held_until: float | None = None
        self._is_lost = False
        self._positions: dict[int, int] = {}
        self._reading: dict[int, Contents] = {}
        self._quiet_since = monotonic()

    async def run(self) -> None:
        """Be a member, for ever; ends by cancellation."""
        self._consumer.subscribe([self._topic], listener=self._clients.listener(self._on_revoked, self._on_given))
        while True:
            try:
                await self._step()
            except self._clients.error as error:
                logger.warning("the topic of sandboxes: %s; it is tried again", type(error).__name__)
                await asyncio.sleep(_RETRY_S)

    async def _on_revoked(self, partitions: set[int]) -> None:
        if not partitions and not self._share.owned:
            return
        self._held_until = self._monotonic() + self._hold_at_most_s
        await self._owner.hold()
        if self._is_whole():
            with suppress(TimeoutError, NotStoredError, self._clients.error):
                async with asyncio.timeout(_LOOK_S):
                    await self._write_what_is_lost()

    async def _on_given(self, partitions: set[int]) -> None:
        self._given = partitions

    async def _step(self) -> None:
        if self._given is not None:
            await self._take_up(self._given)
        elif self._held_until is not None and self._monotonic() > self._held_until:
            # The brokers are away in the middle of it. A sandbox that is read twice is better than one that is not.
            logger.warning("the shares were to change and have not; this poller reads on what it had")
            self._held_until = None
            self._owner.go_on()
        batch = await self._consumer.getmany(timeout_ms=_WAIT_MS, max_records=_MOST_MESSAGES)
        if self._given is not None:
            return  # whatever this is of, it is read again from where it was
        if batch:
            self._quiet_since = self._monotonic()
        for partition, messages in batch.items():
            await self._read(partition.partition, messages)
        await self._finish_reading()
        if batch:
            await self._commit([partition.partition for partition in batch])

    async def _take_up(self, given: set[int]) -> None:
        """Give away what is another's now, and begin to read what is new from the start."""
        if not self._is_whole() and not await self._is_made_again(given):
            self._given = self._held_until = None
            self._owner.go_on()
            return
        try:
            await self._write_what_is_lost()
        except NotStoredError as error:
            logger.warning("sandboxes cannot be written anew (%s); they are tried again", error)
            self._owner.go_on()
            await asyncio.sleep(_RETRY_S)
            return
        new = given - self._share.owned
        partitions = [self._clients.partition(self._topic, number) for number in new]
        begins = await self._consumer.beginning_offsets(partitions) if new else {}
        ends = await self._consumer.end_offsets(partitions) if new else {}
        if self._given is not given:
            return  # which it is no more
        lost = self._share.owned - given
        self._share.owned &= given
        await self._owner.let_go(lost)
        if self._given is not given:
            return
        self._reading = {partition.partition: Contents(end=ends[partition]) for partition in partitions}
        self._positions |= {partition.partition: begins[partition] for partition in partitions}
        for number in given:
            self._consumer.seek(self._clients.partition(self._topic, number), self._positions[number])
        self._given = self._held_until = None
        self._quiet_since = self._monotonic()
        self._owner.go_on()
        logger.info(
            "%d of %d partitions are this poller's, %d newly", len(given), self._share.topics.partitions, len(new)
        )
        await self._finish_reading()

    def _is_whole(self) -> bool:
        """Tell whether the topic has all its partitions; what was in one that has not is lost."""
        is_whole = len(self._consumer.partitions_for_topic(self._topic) or ()) >= self._share.topics.partitions
        self._is_lost = self._is_lost or not is_whole
        return is_whole

    async def _is_made_again(self, given: set[int]) -> bool:
        """Make the topic again if it is gone; tell whether these shares are shares of the whole.

        Else nobody lets go of anything: shares come anew once the topic is whole.
        """
        expected = self._share.topics.partitions
        try:
            found = (await self._open_topics()).partitions
        except KafkaUnavailableError as error:
            found, wrong = 0, str(error)
        else:
            wrong = f"it has {found} partitions"
        if found < expected:
            logger.error(
                "topic %s is not whole (%s); until it has %d partitions (kafka-topics --alter) and"
                " cleanup.policy=compact (kafka-configs --alter), this poller reads on what it had, and no new sandbox",
                *(self._topic, wrong, expected),
            )
        return found >= expected and bool(given)

    async def _write_what_is_lost(self) -> None:
        """Write anew what is known of the sandboxes of partitions that were gone, or end before what was read there."""
        partitions = [self._clients.partition(self._topic, number) for number in sorted(self._share.owned)]
        ends = await self._consumer.end_offsets(partitions) if partitions else {}
        lost = {each.partition for each, end in ends.items() if self._is_lost or end < self._positions[each.partition]}
        if lost:
            await self._write_anew(lost)
        self._is_lost = False

    async def _write_anew(self, numbers: set[int]) -> None:
        logger.warning(
            "topic %s has lost %d of this poller's partitions; they are written anew", self._topic, len(numbers)
        )
        await self._owner.write_anew(numbers)
        self._positions |= dict.fromkeys(numbers, 0)

    async def _read(self, number: int, messages: Sequence[Any]) -> None:
        contents = self._reading.get(number)
        if contents is not None:
            for message in messages:
                contents.put(message.key or b"", message.value)
        else:
            if messages[0].offset < self._positions[number]:
                await self._until_stored(lambda: self._write_anew({number}))
            records = [_decode(message.key or b"", message.value) for message in messages if message.value is not None]
            events = [record.event for record in records if isinstance(record, EventRecord)]
            await self._until_stored(partial(self._owner.follow, events))
        self._positions[number] = messages[-1].offset + 1

    async def _finish_reading(self) -> None:
        """Take over the partitions that are read to their end."""
        is_quiet = self._monotonic() - self._quiet_since > _QUIET_S
        for number, contents in list(self._reading.items()):
            if self._positions[number] >= contents.end or is_quiet:
                self._share.owned.add(number)
                await self._until_stored(partial(self._owner.take_over, contents))
                del self._reading[number]

    async def _until_stored(self, store: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await store()
            except NotStoredError as error:
                logger.warning("sandboxes cannot be kept (%s); they are tried again", error)
                await asyncio.sleep(_RETRY_S)

    async def _commit(self, numbers: Sequence[int]) -> None:
        """Say how far this poller is, for whoever watches the group: a new owner reads from the start anyway."""
        offsets = {self._clients.partition(self._topic, number): self._positions[number] for number in numbers}
        try:
            await self._consumer.commit(offsets)
        except self._clients.error as error:
            logger.debug("offsets are not moved: %s", type(error).__name__)


def _is_progress(record: Record | None) -> TypeGuard[ProgressRecord]:
    return isinstance(record, ProgressRecord)


def _decode(key: bytes, value: bytes) -> Record | None:
    try:
        return decode_record(key, value)
    except UnreadableRecordError as error:
        logger.warning("a message in the topic of sandboxes is unreadable (%s) and left out", error)
        return None
