"""A fleet that several pollers share through Kafka: what this poller does as one of them."""

import asyncio
import logging
import secrets
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandgauge_poller.config import Kafka
from sandgauge_poller.export.handover import HandedOver
from sandgauge_poller.export.recorder import Recorder
from sandgauge_poller.ingest.events import LifecycleEvent, NotStoredError
from sandgauge_poller.ingest.intake import Intake
from sandgauge_poller.ingest.kafka.client import KafkaClients
from sandgauge_poller.ingest.kafka.feed import LifecycleFeed
from sandgauge_poller.ingest.kafka.inventory import Inventory
from sandgauge_poller.ingest.kafka.log import SandboxLog
from sandgauge_poller.ingest.kafka.membership import Contents, Membership
from sandgauge_poller.ingest.kafka.records import ProgressRecord
from sandgauge_poller.ingest.kafka.topics import Share, open_topics
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.loop import ReadingLoop
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_poller.tracking import elsewhere, store
from sandgauge_poller.tracking.active_set import ActiveSet, SandboxKey
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.elsewhere import Seen
from sandgauge_poller.tracking.progress import Progress, load_progress
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_poller.tracking.succession import Succession
from sandgauge_poller.tracking.tally import dump_tally
from sandgauge_poller.tracking.tracker import Tracker
from sandgauge_schemas.names import SpanOutcome, SpanReason
from sandgauge_schemas.wording import number_of

logger = logging.getLogger(__name__)

_READING_S = 2.5
"""A reading is over by then, whatever comes of it."""
_HOLD_AT_MOST_S = 15.0
"""So long readings wait for a change of the shares that does not come."""
_HAND_OVER_S = 3.0
_LEAVE_S = 1.0
"""A poller that is told to stop ends within five seconds, and this is a part of them."""
_TIDY_S = 60.0
_REMEMBER_DONE_NS = 3600 * 10**9
"""So long the log says that a sandbox is done with: its spans may come again."""
_ERASED_AT_ONCE = 100
_WRITTEN_AT_ONCE = 1000
_INSTANCE_FILE = "kafka-instance"


@dataclass(frozen=True, slots=True)
class SharedLog:
    """The brokers, what this poller writes there, and which share it has."""

    clients: KafkaClients
    kafka: Kafka
    log: SandboxLog
    share: Share


@asynccontextmanager
async def open_shared_log(kafka: Kafka) -> AsyncIterator[SharedLog]:
    """Find or make the topics and begin to write; raises KafkaUnavailableError."""
    clients = KafkaClients(kafka)
    topics = await open_topics(clients, kafka)
    producer = await clients.started(clients.producer())
    try:
        yield SharedLog(clients, kafka, SandboxLog(producer, topics, clients.error), Share(topics))
    finally:
        await end_within(_LEAVE_S, producer.stop, "Kafka did not take everything in time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What this poller is made of beside it."""

    database: Database
    active: ActiveSet
    tracker: Tracker
    reading: ReadingLoop
    recorder: Recorder
    handed_over: HandedOver
    metrics: SelfMetrics
    clock: Clock


class SharedFleet:
    """Follows and reads the sandboxes of this poller's share, and hands them over as the shares change."""

    def __init__(self, shared: SharedLog, parts: Parts) -> None:
        self._shared = shared
        self._parts = parts
        self._succession = Succession(parts.database, parts.active, parts.reading.on_change)

    @asynccontextmanager
    async def joined(self, intake: Intake, directory: Path) -> AsyncIterator[Sequence[Coroutine[Any, Any, None]]]:
        """Be one of the pollers; yields what is to run meanwhile, and leaves the group at the end.

        Raises:
            KafkaUnavailableError: no broker lets it in.

        """
        shared, clients, parts = self._shared, self._shared.clients, self._parts
        group, topics = shared.kafka.group_id, shared.share.topics
        await self._succession.begin()
        async with AsyncExitStack() as stack:

            async def consumer(group_id: str) -> Any:
                started = await clients.started(clients.consumer(group_id))
                stack.push_async_callback(end_within, _LEAVE_S, started.stop, f"group {group_id} was not left in time")
                return started

            reader = await consumer(f"{group}-inventory-{instance_name(directory)}")
            inventory = Inventory(clients, reader, topics.inventory, parts.tracker.commit)
            lifecycle = await consumer(f"{group}-lifecycle")
            lifecycle.subscribe([topics.lifecycle])
            membership = Membership(
                clients,
                await consumer(group),
                shared.share,
                self,
                open_topics=lambda: open_topics(clients, shared.kafka),
                hold_at_most_s=_HOLD_AT_MOST_S,
                monotonic=parts.clock.monotonic,
            )

            async def follow() -> None:
                await inventory.catch_up()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(inventory.run())
                    tasks.create_task(membership.run())

            feed = LifecycleFeed(lifecycle, intake, clients.error)
            yield (follow(), feed.run(), parts.handed_over.run(), self._tidy())
            await parts.reading.hold(_LEAVE_S)
            await parts.reading.stop()  # of what is handed over nothing may change any more
            await self._hand_over(_LEAVE_S)

    async def hold(self) -> None:
        """Begin no reading, and return once all that was seen is in the log, or cannot be brought there."""
        await self._parts.reading.hold(_READING_S)
        await self._hand_over(_HAND_OVER_S)

    def go_on(self) -> None:
        """Read on."""
        self._parts.reading.go_on()

    async def take_over(self, contents: Contents) -> None:
        """Follow the sandboxes of a partition; raises NotStoredError."""
        parts = self._parts
        seen = {
            SandboxKey(record.owner, record.sandbox_id): Seen(progress, record.updated_ns)
            for record in contents.progress
            if (progress := _progress(record)) is not None
        }
        done = {SandboxKey(record.owner, record.sandbox_id): record.at_ns for record in contents.done}
        left_out = await self._succession.take_over(contents.events, seen, done, parts.clock.now_ns())
        parts.handed_over.graves.update(done)
        if left_out:
            parts.metrics.spans(SpanOutcome.REJECTED, SpanReason.CAPACITY, left_out)
            sandboxes = number_of(left_out, "sandbox")
            logger.warning("beyond tracking.max_sandboxes, and so not read: %s", sandboxes)

    async def let_go(self, partitions: set[int]) -> None:
        """Follow the sandboxes of partitions no more."""
        parts, partition_of = self._parts, self._shared.share.topics.partition_of
        handed_over = parts.handed_over
        for key in [key for key in handed_over.graves if partition_of(key.sandbox_id) in partitions]:
            handed_over.forget(key)
        sandboxes = [each for each in parts.active if partition_of(each.key.sandbox_id) in partitions]
        await self._succession.let_go(sandboxes)
        parts.reading.let_go(sandboxes)
        for sandbox in sandboxes:
            parts.recorder.let_go(sandbox)
            handed_over.forget(sandbox.key)

    async def write_anew(self, partitions: set[int]) -> None:
        """Write all that is known of the sandboxes of partitions, whose log is lost; raises NotStoredError."""
        parts, partition_of = self._parts, self._shared.share.topics.partition_of
        key_of = parts.active.key_of
        sandboxes = {each.key: each for each in parts.active if partition_of(each.key.sandbox_id) in partitions}
        try:
            known = await parts.database.write(lambda connection: store.load_events(connection, key_of))
        except StateError as error:
            raise NotStoredError(str(error)) from error
        events = [event for event in known if key_of(event) in sandboxes]
        for at in range(0, len(events), _WRITTEN_AT_ONCE):
            await self._shared.log.publish(events[at : at + _WRITTEN_AT_ONCE])
        parts.handed_over.renew(sandboxes)
        await parts.handed_over.flush()

    async def follow(self, events: Sequence[LifecycleEvent]) -> None:
        """Take events about sandboxes that are followed; raises NotStoredError."""
        if not events:
            return
        outcomes = await self._parts.tracker.commit(events)
        rejected = outcomes.count(SpanOutcome.REJECTED)
        if rejected:
            self._parts.metrics.spans(SpanOutcome.REJECTED, SpanReason.CAPACITY, rejected)

    async def _hand_over(self, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await self._parts.handed_over.flush()
        except (NotStoredError, TimeoutError):
            logger.warning("the latest of what was seen is not handed over: Kafka did not take it in time")

    async def _tidy(self) -> None:
        """Erase from the log, now and then, what is long done with."""
        while True:
            await self._parts.clock.sleep(_TIDY_S)
            before_ns = self._parts.clock.now_ns() - _REMEMBER_DONE_NS
            graves = self._parts.handed_over.graves
            old = [key for key, at_ns in graves.items() if at_ns < before_ns]
            try:
                for at in range(0, len(old), _ERASED_AT_ONCE):
                    await asyncio.gather(*(self._erase(key) for key in old[at : at + _ERASED_AT_ONCE]))
            except (NotStoredError, OSError) as error:
                logger.warning("the log cannot be tidied up (%s); it is tried again in %g s", error, _TIDY_S)

    async def _erase(self, key: SandboxKey) -> None:
        spans = self._parts.database.read(lambda connection: elsewhere.spans(connection, key))
        await self._shared.log.erase(key.owner, key.sandbox_id, spans)
        self._parts.handed_over.graves.pop(key, None)


def _progress(record: ProgressRecord) -> Progress | None:
    try:
        progress = load_progress(record.progress)
        dump_tally(progress)
    except (ValueError, struct.error):  # the latter of numbers that no store could hold
        logger.warning("what another poller saw of a sandbox is unreadable; it begins anew")
        return None
    return progress


def instance_name(directory: Path) -> str:
    """Return what a state folder is called in the names of groups: the same as long as there is the folder."""
    file = directory / _INSTANCE_FILE
    known = file.read_text() if file.exists() else ""
    if not known:  # or the disk was full when it was made, as on other pollers it may have been: no two share a name
        known = secrets.token_hex(8)
        file.write_text(known)
    return known


async def end_within(seconds: float, end: Callable[[], Awaitable[None]], complaint: str) -> None:
    """End a client, or say why it has not ended."""
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(seconds):
            await end()
    except TimeoutError:
        logger.warning("%s", complaint)
    except asyncio.CancelledError:
        # Where brokers are away, the client cancels tasks of its own and hands that on: nobody has cancelled this one.
        if task is None or task.cancelling():
            raise
        logger.warning("%s", complaint)
