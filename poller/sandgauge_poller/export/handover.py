"""What was seen of sandboxes, written where a next owner finds it: at each turn of a life at once, else in its turn."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from sandgauge_poller.ingest.events import NotStoredError
from sandgauge_poller.ingest.kafka.records import DoneRecord, ProgressRecord
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.context import RecordSink
from sandgauge_poller.reading.provider import AllocationReading, SampleReading
from sandgauge_poller.reading.usage.loop import UsageSink
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer
from sandgauge_poller.tracking.active_set import ActiveSet, SandboxKey, Tracked
from sandgauge_poller.tracking.progress import dump_progress

logger = logging.getLogger(__name__)

READINGS_A_TICK = 100
"""Sandboxes whose readings are written in one: each reading at once, for up to a thousand sandboxes read every 10 s."""

_ROUND_TICKS = 60
"""With more sandboxes each has its turn by then: so much is unknown to whoever follows a poller that is killed."""

_TICK_S = 1.0
_RETRY_S = 1.0

Write = Callable[[Sequence[ProgressRecord | DoneRecord]], Awaitable[None]]
"""Write what is known of sandboxes; raises NotStoredError."""


class Sink(RecordSink, UsageSink, Protocol):
    """Where readings of either kind become records."""


class HandedOver:
    """The reading loops' sink: takes note of which sandboxes have news, and hands each reading on."""

    def __init__(self, sink: Sink, active: ActiveSet, write: Write, clock: Clock) -> None:
        self._sink = sink
        self._active = active
        self._write = write
        self._clock = clock
        self._news: dict[SandboxKey, Tracked] = {}
        """Sandboxes that were read since they were written, those that have waited longest first."""
        self._turns: dict[SandboxKey, Tracked] = {}
        self._next_tick = clock.monotonic()
        self._being_summarised: set[SandboxKey] = set()
        """A next owner must not hear of a summary before it is kept."""
        self._done: dict[SandboxKey, DoneRecord] = {}
        self.graves: dict[SandboxKey, int] = {}
        """Sandboxes that are done with, and since when (ns since the epoch), as is written."""
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Write what is due, for ever; ends by cancellation."""
        while True:
            try:
                async with asyncio.timeout(_TICK_S):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self.write_due()
            except NotStoredError as error:
                logger.warning("what was seen of sandboxes cannot be handed over (%s); it is tried again", error)
                await self._clock.sleep(_RETRY_S)

    async def write_due(self) -> None:
        """Write turns of lives, and the readings whose turn it is; raises NotStoredError."""
        await self._flush({**self._in_turn(), **self._turns})

    def _in_turn(self) -> dict[SandboxKey, Tracked]:
        """Return whose readings are to be written now; none when that was less than a tick ago."""
        now = self._clock.monotonic()
        if now < self._next_tick:
            return {}
        self._next_tick = now + _TICK_S
        count = max(READINGS_A_TICK, math.ceil(len(self._active) / _ROUND_TICKS))
        return dict(islice(self._news.items(), count))

    async def flush(self) -> None:
        """Write all there is; raises NotStoredError."""
        await self._flush({**self._news, **self._turns})

    def renew(self, sandboxes: Mapping[SandboxKey, Tracked]) -> None:
        """Write of sandboxes all that was seen, whatever was written before."""
        self._turns |= sandboxes
        self._wake.set()

    def done(self, key: SandboxKey, at_ns: int) -> None:
        """Write that a sandbox is done with, instead of what was seen of it."""
        self.forget(key)
        self._done[key] = DoneRecord(key.owner, key.sandbox_id, at_ns)
        self._wake.set()

    def forget(self, key: SandboxKey) -> None:
        """Have no more to do with a sandbox."""
        for known in (self._news, self._turns, self._done, self.graves):
            known.pop(key, None)

    async def allocation(self, sandbox: Tracked, reading: AllocationReading) -> None:
        """Record an allocation if it changed."""
        self._news[sandbox.key] = sandbox
        await self._sink.allocation(sandbox, reading)

    async def sample(self, sandbox: Tracked, reading: SampleReading, missed: int, *, is_final: bool) -> None:
        """Record one reading."""
        self._news[sandbox.key] = sandbox
        await self._sink.sample(sandbox, reading, missed, is_final=is_final)

    async def usage(self, sandbox: Tracked, answer: UsageAnswer, kills: Kills | None, missed: int) -> None:
        """Record one answer of a usage source."""
        self._news[sandbox.key] = sandbox
        await self._sink.usage(sandbox, answer, kills, missed)

    async def ended(self, sandbox: Tracked) -> None:
        """Close the series of a sandbox, and keep its end."""
        await self._sink.ended(sandbox)
        self._turn(sandbox)

    async def summary(self, sandbox: Tracked) -> None:
        """Record how the sandbox lived and ended."""
        self._being_summarised.add(sandbox.key)
        try:
            await self._sink.summary(sandbox)
        finally:
            self._being_summarised.discard(sandbox.key)
            self._turn(sandbox)

    async def changed(self, sandbox: Tracked) -> None:
        """Keep progress that no record carries."""
        await self._sink.changed(sandbox)
        self._turn(sandbox)

    def _turn(self, sandbox: Tracked) -> None:
        self._turns[sandbox.key] = sandbox
        self._wake.set()

    async def _flush(self, sandboxes: Mapping[SandboxKey, Tracked]) -> None:
        sandboxes = {key: each for key, each in sandboxes.items() if key not in self._being_summarised}
        done, now_ns = dict(self._done), self._clock.now_ns()
        if not sandboxes and not done:
            return
        seen = [
            ProgressRecord(key.owner, key.sandbox_id, now_ns, dump_progress(sandbox.progress).decode())
            for key, sandbox in sandboxes.items()
            if self._active.get(key) is sandbox  # else another may follow it by now, and know more
        ]
        for key in sandboxes:
            self._news.pop(key, None)
            self._turns.pop(key, None)
        try:
            await self._write([*seen, *done.values()])
        except BaseException:
            self._turns = {**sandboxes, **self._turns}
            raise
        for key, record in done.items():
            self.forget(key)
            self.graves[key] = record.at_ns
