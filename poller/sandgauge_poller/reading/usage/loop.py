"""Sweeps of the usage sources: each on an interval of its own, and never two of one source at a time."""

import asyncio
import logging
import math
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.missed import skipped
from sandgauge_poller.reading.schedule import back_off
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageSource, UsageTarget
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_poller.tracking.active_set import ActiveSet, SandboxKey, Tracked
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import ErrorType, ReadKind, ResourceSource

logger = logging.getLogger(__name__)


class Lives(Protocol):
    """Who knows how sandboxes fare."""

    def is_live(self, sandbox: Tracked) -> bool:
        """Tell whether its usage is worth asking for."""

    def usage_answered(self, sandbox: Tracked, error_type: ErrorType | None) -> None:
        """Hear how an answer went."""


class UsageSink(Protocol):
    """Where answers become records."""

    async def usage(self, sandbox: Tracked, answer: UsageAnswer, kills: Kills | None, missed: int) -> None:
        """Record one answer, and how many readings that were due it leaves missed; return once that is committed."""


@dataclass(slots=True)
class _Unasked:
    """A sandbox that hung its source's questions, or was due while no poller ran."""

    timeouts: int = 0
    """So many questions hung in a row."""
    sits_out: int = 0
    """So many sweeps it still sits out."""
    unread: int = 0
    """So many readings were due meanwhile, until they are counted."""


@dataclass(slots=True)
class PlacedSource:
    """A source, and the deployments whose sandboxes run where it looks; none named means any."""

    source: UsageSource
    deployments: frozenset[str] = frozenset()
    _targets: dict[SandboxKey, UsageTarget] = field(default_factory=dict)
    _unasked: dict[SandboxKey, _Unasked] = field(default_factory=dict)

    def target(self, sandbox: Tracked) -> UsageTarget | None:
        """Return what to ask for, or None where it is not the source's to tell or nobody knows yet where it runs."""
        if self.deployments and sandbox.deployment not in self.deployments:
            return None
        recorded = sandbox.progress.recorded_allocation
        designator = recorded.designator if recorded is not None else None
        if designator is None or not self.source.serves(designator):
            return None
        return UsageTarget(sandbox.key.sandbox_id, designator)

    def take_up(self, sandboxes: Iterable[Tracked], now_ns: int) -> dict[UsageTarget, list[Tracked]]:
        """Return what to ask for in a sweep at `now_ns` (ns since the epoch); one that hung sits some out."""
        asked: dict[UsageTarget, list[Tracked]] = {}
        for sandbox in sandboxes:
            target = self.target(sandbox)
            if target is None:
                continue
            self._know(sandbox, target, now_ns)
            unasked = self._unasked.get(sandbox.key)
            if unasked is not None and unasked.sits_out:
                unasked.sits_out, unasked.unread = unasked.sits_out - 1, unasked.unread + 1
            else:
                asked.setdefault(target, []).append(sandbox)
        return asked

    def _know(self, sandbox: Tracked, target: UsageTarget, now_ns: int) -> None:
        before = self._targets.get(sandbox.key)
        if before is None:
            self._remember(sandbox, now_ns)
        elif before != target:  # it is another pod or container by now
            self.source.forget(before)
        self._targets[sandbox.key] = target

    def _remember(self, sandbox: Tracked, now_ns: int) -> None:
        """Note what was due between the last reading before a restart and now: it was missed."""
        usage, interval = sandbox.progress.usage, self.source.interval_s
        if usage is None or usage.source is not self.source.source:
            return
        last_ns = max(usage.last_reading_ns or 0, *usage.failed_in_a_row_ns[-1:], 0)
        unread = skipped(interval, (now_ns - last_ns) / 1e9, interval) if last_ns else 0
        if unread:
            self._unasked[sandbox.key] = _Unasked(unread=unread)

    def missed(self, sandbox: Tracked, answer: UsageAnswer) -> int:
        """Return how many readings an answer leaves missed, and plan when a sandbox that hangs is asked again."""
        failed = answer.error_type is not None
        unasked = self._unasked.pop(sandbox.key, None) or _Unasked()
        missed = unasked.unread + failed
        if answer.error_type is ErrorType.TIMEOUT:
            interval = self.source.interval_s
            timeouts = unasked.timeouts + 1
            sweeps = math.floor(back_off(interval, timeouts - 1) / interval)
            self._unasked[sandbox.key] = _Unasked(timeouts, sits_out=sweeps - 1)
        return missed

    def kills(self, sandbox: Tracked) -> Kills | None:
        """Return what the source knows of a sandbox's kills by now."""
        target = self._targets.get(sandbox.key)
        return self.source.kills(target) if target is not None else None

    def let_go(self, active: ActiveSet) -> None:
        """Forget the sandboxes that are done with."""
        for key in [key for key in self._targets if active.get(key) is None]:
            self.source.forget(self._targets.pop(key))
            self._unasked.pop(key, None)


class UsageLoop:
    """Ask every source of every live sandbox that is its own, and hand the answers on."""

    def __init__(  # noqa: PLR0913  # its collaborators and its clock are passed in
        self,
        sources: Sequence[PlacedSource],
        active: ActiveSet,
        lives: Lives,
        *,
        sink: UsageSink,
        metrics: SelfMetrics,
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._active = active
        self._lives = lives
        self._sink = sink
        self._metrics = metrics
        self._clock = clock

    async def run(self) -> None:
        """Sweep, for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for source in self._sources:
                group.create_task(self._sweep_on(source))

    def kills(self, sandbox: Tracked) -> tuple[ResourceSource, Kills] | None:
        """Return what is known of a sandbox's kills by now, and which source knows it."""
        known = ((placed.source.source, placed.kills(sandbox)) for placed in self._sources)
        return next(((source, kills) for source, kills in known if kills is not None), None)

    async def _sweep_on(self, placed: PlacedSource) -> None:
        due = self._clock.monotonic()
        while True:
            try:
                await self.sweep(placed)
            except Exception:
                logger.exception("a sweep of %s failed; it is tried again", placed.source.source.value)
            # What became due while the sweep went on is left out: sweeps never pile up.
            interval, now = placed.source.interval_s, self._clock.monotonic()
            due += interval * max(1, math.ceil((now - due) / interval))
            await self._clock.sleep(due - now)

    async def sweep(self, placed: PlacedSource) -> None:
        """Ask once of all that are the source's, and return when every answer is recorded."""
        placed.let_go(self._active)
        asked = placed.take_up(filter(self._lives.is_live, self._active), self._clock.now_ns())
        if not asked:
            return
        async with aclosing(placed.source.sweep(list(asked))) as answers, asyncio.TaskGroup() as recording:
            async for target, answer in answers:
                for sandbox in asked[target]:
                    recording.create_task(self._record(placed, sandbox, answer))

    async def _record(self, placed: PlacedSource, sandbox: Tracked, answer: UsageAnswer) -> None:
        self._metrics.read(sandbox.deployment or "", ReadKind.USAGE, answer.error_type, answer.window)
        missed = placed.missed(sandbox, answer)
        if sandbox.progress.end is not None:
            return  # it ended meanwhile, and an answer from then says nothing of its life
        self._lives.usage_answered(sandbox, answer.error_type)
        if answer.error_type is not None and sandbox.progress.paused:
            answer = replace(answer, error_type=ErrorType.PAUSED)  # a paused pod, for one, is gone until it is resumed
        try:
            await self._sink.usage(sandbox, answer, placed.kills(sandbox), missed)
        except StateError:
            return  # of which the store itself tells the log; the next reading is taken as ever
        except Exception:
            logger.exception("an answer of %s could not be recorded", placed.source.source.value)
