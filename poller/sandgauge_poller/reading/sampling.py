"""Allocation and sample readings of one sandbox: one question each, its record, and when to ask again."""

import random

from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.reading.endings import Endings
from sandgauge_poller.reading.provider import SampleReading
from sandgauge_poller.reading.schedule import Due, Task, back_off, next_on_phase, phase
from sandgauge_poller.reading.verdict import Standing
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_schemas.names import ErrorType, ReadKind, ResourceSource, SandboxState

_ALLOCATION_RETRY_S = 2.0
"""First wait after an allocation that could not be read."""

_ANSWERED = frozenset({None, ErrorType.NO_SUPPORTED_QUANTITY})
"""Outcomes after which the next allocation reading waits for its refresh: the control plane has said what it can."""


class Sampling:
    """Ask, record, and plan the next question."""

    def __init__(self, context: ReadingContext, endings: Endings) -> None:
        self._context = context
        self._endings = endings

    def begin(self, sandbox: Tracked) -> None:
        """Plan a sandbox's first readings: at once, but no faster than the deployment's rate."""
        context = self._context
        settings = context.settings
        now = context.clock.monotonic()
        context.live.setdefault(sandbox.deployment or "", set()).add(sandbox.key)
        at = context.first_reads[sandbox.deployment or ""].claim(now)
        jitter = random.random() * settings.collection_jitter  # noqa: S311  # spreads load, guards no secret
        context.schedule.put(sandbox.key, Task.ALLOCATION, at)
        context.schedule.put(sandbox.key, Task.SAMPLE, at + settings.initial_delay + jitter)

    async def read_allocation(self, sandbox: Tracked, due: Due) -> None:
        """Read what is in force, record it if it changed, and plan the next look."""
        del due  # an allocation is refreshed relative to its answer, not on a grid
        context, pace = self._context, self._context.pace(sandbox)
        reading = await context.provider(sandbox).read_allocation(sandbox.key.sandbox_id)
        context.metrics.read(sandbox.deployment or "", ReadKind.ALLOCATION, reading.error_type, reading.window)
        if sandbox.progress.end is not None:
            return
        await context.sink.allocation(sandbox, reading)
        now = context.clock.monotonic()
        if reading.error_type in _ANSWERED:
            pace.allocation_failures = 0
            context.schedule.put(sandbox.key, Task.ALLOCATION, now + context.settings.refresh_interval)
        else:
            wait = back_off(_ALLOCATION_RETRY_S, pace.allocation_failures)
            pace.allocation_failures += 1
            context.schedule.put(sandbox.key, Task.ALLOCATION, now + wait)
            if reading.error_type is ErrorType.NOT_FOUND:
                self._endings.ask_status(sandbox)

    async def read_sample(self, sandbox: Tracked, due: Due) -> None:
        """Read the sandbox's daemon once, record what came of it, and plan the next reading on its own phase."""
        context, pace = self._context, self._context.pace(sandbox)
        context.metrics.lateness(sandbox.deployment or "", max(0.0, context.clock.monotonic() - due.at))
        reading = await self._read(sandbox)
        context.metrics.read(sandbox.deployment or "", ReadKind.SAMPLE, reading.error_type, reading.window)
        if sandbox.progress.end is not None:
            # It ended meanwhile: numbers that were read before count, a failure says nothing.
            if reading.usage is not None and reading.window.start_ns <= sandbox.progress.end.at_ns:
                await context.sink.sample(sandbox, reading, 0)
            return
        interval = context.interval(sandbox)
        missed = self._missed(pace.last_due, due.at, interval) + (reading.error_type is not None)
        pace.last_due = due.at
        await context.sink.sample(sandbox, reading, missed)
        if context.state(sandbox) is SandboxState.ENDING:
            return  # it ended while its record was on its way
        if reading.error_type is None:
            pace.failures = 0
            self._discovered(sandbox, reading)
        else:
            pace.failures += 1
            self._endings.ask_status(sandbox)
        self._plan_next(sandbox, due, interval, pace.failures)

    async def _read(self, sandbox: Tracked) -> SampleReading:
        provider = self._context.provider(sandbox)
        if sandbox.paused:
            # A paused sandbox accepts the connection and never answers: the control plane is asked instead.
            verdict, window = await self._endings.read_status(sandbox)
            if verdict.standing is not Standing.ALIVE:
                source = ResourceSource.OPENSANDBOX_EXECD
                return SampleReading(window=window, source=source, error_type=ErrorType.PAUSED)
        return await provider.read_sample(sandbox.key.sandbox_id)

    def _discovered(self, sandbox: Tracked, reading: SampleReading) -> None:
        start = sandbox.lifecycle.start
        if sandbox.progress.readings == 1 and start is not None and start.end_ns is not None:
            lag = (reading.window.end_ns - start.end_ns) / 1e9
            if lag >= 0:
                self._context.metrics.discovery_lag(sandbox.deployment or "", lag)

    def _plan_next(self, sandbox: Tracked, due: Due, interval: float, failures: int) -> None:
        now, own_phase = self._context.clock.monotonic(), phase(sandbox.key.sandbox_id)
        wait = back_off(interval, failures - 1) - interval if failures > 0 else 0.0
        at = next_on_phase(due.at + wait, interval, own_phase)
        if at < now:
            # Overdue by more than a whole interval: the ticks in between are missed, never made up for.
            at = next_on_phase(now - interval / 2, interval, own_phase)
        self._context.schedule.put(sandbox.key, Task.SAMPLE, at)

    @staticmethod
    def _missed(last_due: float | None, due: float, interval: float) -> int:
        """Return how many intervals passed without a reading since the last one was due."""
        return 0 if last_due is None else max(0, round((due - last_due) / interval) - 1)
