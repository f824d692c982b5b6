"""Allocation and sample readings of one sandbox: one question each, its record, and when to ask again."""

import math
import random

from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.context import Pace, ReadingContext
from sandgauge_poller.reading.endings import Endings
from sandgauge_poller.reading.missed import skipped
from sandgauge_poller.reading.provider import AllocationReading, SampleReading
from sandgauge_poller.reading.questions import StatusQuestions
from sandgauge_poller.reading.schedule import Due, Task, back_off, next_on_phase
from sandgauge_poller.tracking import sender_clock
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import End
from sandgauge_schemas.names import DesignatorKind, ErrorType, ReadKind, ResourceSource, SandboxState

_FIRST_STATUS_S = 2.0
"""When a new sandbox's expiry is asked for: after its first readings, which matter more."""

_ALLOCATION_RETRY_S = 2.0
"""First wait after an allocation that could not be read."""

_NOT_FOUND_RETRY_S = 6.0
"""The same, where the control plane knows of none: by then it has been asked twice whether the sandbox is gone."""

_TURNS_OF_NOTHING = 3
"""Questions that one which does not exist costs after the first: where its daemon is, and twice whether it is gone."""

_SOURCE = ResourceSource.OPENSANDBOX_EXECD

_ANSWERED = frozenset({None, ErrorType.NO_SUPPORTED_QUANTITY})
"""Outcomes after which the next allocation reading waits for its refresh: the control plane has said what it can."""


class Sampling:
    """Ask, record, and plan the next question."""

    def __init__(self, context: ReadingContext, endings: Endings, questions: StatusQuestions) -> None:
        self._context = context
        self._endings = endings
        self._questions = questions

    def begin(self, sandbox: Tracked) -> None:
        """Let a sandbox wait for its first readings: they come at once, but no faster than the deployment's rate."""
        context, deployment = self._context, sandbox.deployment or ""
        pace = context.pace(sandbox)
        pace.final = pace.next_due = None
        context.newcomers[deployment].add(sandbox)
        if context.schedule.at(deployment, Task.ADMIT) is None:
            self._plan_admission(deployment)

    def admit(self, deployment: str) -> None:
        """Plan the first readings of whoever is next.

        Nobody is, while questions to the control plane have to wait: those of the sandboxes that are read come first.
        """
        context = self._context
        delay = context.providers[deployment].delay()
        now = context.clock.monotonic()
        if delay > 0:
            context.schedule.put(deployment, Task.ADMIT, now + delay)
            return
        sandbox = context.newcomers[deployment].take()
        if sandbox is None:
            return
        settings = context.settings
        jitter = random.random() * settings.collection_jitter  # noqa: S311  # spreads load, guards no secret
        first = now + settings.initial_delay + jitter
        if context.pace(sandbox).final is None and context.reads_execd(sandbox):
            context.schedule.put(sandbox.key, Task.SAMPLE, first)
        # What was asked before a restart or a change of owners is asked again in its turn: readings come first.
        is_known = context.reads_execd(sandbox) and _is_answered(sandbox)
        asked = now + sandbox.phase * settings.refresh_interval if is_known else now
        context.schedule.put(sandbox.key, Task.ALLOCATION, asked)
        context.schedule.put(sandbox.key, Task.STATUS, max(asked, first + _FIRST_STATUS_S))
        if context.newcomers[deployment]:
            self._plan_admission(deployment)

    def _plan_admission(self, deployment: str) -> None:
        context = self._context
        at = context.first_reads[deployment].claim(context.clock.monotonic())
        context.schedule.put(deployment, Task.ADMIT, at)

    def remember(self, sandbox: Tracked) -> None:
        """Count what was due between the last reading before a restart and now: it was missed."""
        context, progress = self._context, sandbox.progress
        last_ns = max(progress.last_reading_ns or 0, *progress.failed_in_a_row_ns[-1:], 0)
        if last_ns:
            interval, ago_s = context.interval(sandbox), (context.clock.now_ns() - last_ns) / 1e9
            context.pace(sandbox).unread = skipped(interval, ago_s, interval)

    async def read_allocation(self, sandbox: Tracked, due: Due) -> None:
        """Read what is in force, record it if it changed, and plan the next look."""
        del due  # an allocation is refreshed relative to its answer, not on a grid
        await self._look(sandbox)

    async def _look(self, sandbox: Tracked) -> AllocationReading:
        context, pace = self._context, self._context.pace(sandbox)
        reading = await context.provider(sandbox).read_allocation(sandbox.key.sandbox_id)
        context.metrics.read(sandbox.deployment or "", ReadKind.ALLOCATION, reading.error_type, reading.window)
        has_ended = sandbox.progress.end is not None
        # A failure says nothing of a sandbox that ended meanwhile; what was in force until then is worth knowing.
        if not sandbox.progress.summarised and not (has_ended and reading.error_type is not None):
            await context.sink.allocation(sandbox, reading)
        if context.state(sandbox) is SandboxState.ENDING:
            return reading  # there is nothing to refresh
        now = context.clock.monotonic()
        if reading.error_type in _ANSWERED:
            # Counted only now: ids that somebody made up must not stretch the interval of the sandboxes there are.
            context.join(sandbox)
            pace.allocation_failures = 0
            context.schedule.put(sandbox.key, Task.ALLOCATION, now + context.settings.refresh_interval)
        else:
            is_urgent = sandbox.progress.allocation is None or reading.error_type is ErrorType.NOT_FOUND
            # In the end a control plane in trouble is asked no more often than one in health.
            wait = refresh = context.settings.refresh_interval
            if is_urgent:
                wait = back_off(min(_ALLOCATION_RETRY_S, refresh), pace.allocation_failures, longest=refresh)
            pace.allocation_failures += 1
            if reading.error_type is ErrorType.NOT_FOUND:
                self._questions.plan(sandbox)
                wait = max(wait, _NOT_FOUND_RETRY_S)
                if sandbox.progress.allocation is None:
                    # It may never have been: what it costs beyond its turn, the next newcomers wait for.
                    context.first_reads[sandbox.deployment or ""].claim(now, _TURNS_OF_NOTHING)
            context.schedule.put(sandbox.key, Task.ALLOCATION, now + wait)
        return reading

    async def read_sample(self, sandbox: Tracked, due: Due) -> None:
        """Read the sandbox's daemon once, record what came of it, and plan the next reading on its own phase.

        The reading before deletion is one that began after it was asked for, or a good one that was on its way then:
        it ends later too, and a sandbox is never read twice at one time.
        """
        context, pace = self._context, self._context.pace(sandbox)
        context.metrics.lateness(sandbox.deployment or "", max(0.0, context.clock.monotonic() - due.at))
        asked, is_first = pace.final, pace.next_due is None
        pace.is_reading = True
        try:
            reading = await self._read(sandbox)
        finally:
            pace.is_reading = False
        is_good = reading is not None and reading.error_type is None
        final = pace.final if is_good or pace.final is asked else None
        is_recorded = await self._record(sandbox, due, reading, is_final=final is not None)
        if final is not None and not final.done():
            final.set_result(FinalReading.RECORDED if is_recorded else FinalReading.NOT_READ)
        if reading is None or context.state(sandbox) is SandboxState.ENDING:
            return  # it may have ended while its record was on its way
        if is_good:
            context.join(sandbox)
            pace.failures = 0
            self._discovered(sandbox, reading)
        else:
            self._failed(sandbox, reading, pace)
        self._plan_next(sandbox, due, pace, is_first=is_first)

    def _failed(self, sandbox: Tracked, reading: SampleReading, pace: Pace) -> None:
        """Ask what may be the reason of a failure."""
        if reading.error_type is ErrorType.PAUSED:
            pace.failures = 1  # it is asked on at its interval, and once it is resumed it has not failed so often
            return
        pace.failures += 1
        if pace.final is not None:
            return
        self._questions.plan(sandbox)
        if _is_pod(sandbox) and not pace.allocation_failures:
            # Whether it is still there only the look at its allocation says: its address goes to another in the end.
            self._context.schedule.put(sandbox.key, Task.ALLOCATION, self._context.clock.monotonic())

    async def _read(self, sandbox: Tracked) -> SampleReading | None:
        """Return a reading, or None for a sandbox that turns out to have ended."""
        if sandbox.progress.paused:
            # A paused sandbox accepts the connection and never answers: the control plane is asked instead.
            _, window = await self._endings.read_status(sandbox)
            if sandbox.progress.end is not None:
                return None
            if sandbox.progress.paused:
                return SampleReading(window=window, source=_SOURCE, error_type=ErrorType.PAUSED)
        if _is_without_container(sandbox):
            # The proxy still forwards to where it was, which may be another sandbox by now.
            look = await self._look(sandbox)
            if sandbox.progress.end is not None:
                return None
            if look.error_type is ErrorType.NOT_FOUND or _is_without_container(sandbox):
                return SampleReading(window=look.window, source=_SOURCE, error_type=look.error_type)
        return await self._context.provider(sandbox).read_sample(sandbox.key.sandbox_id)

    async def _record(self, sandbox: Tracked, due: Due, reading: SampleReading | None, *, is_final: bool) -> bool:
        """Record a reading, unless the sandbox's end explains it; return whether there is a record."""
        context, pace, end = self._context, self._context.pace(sandbox), sandbox.progress.end
        if reading is None:
            self._endings.plan_after_end(sandbox)
            return False
        context.metrics.read(sandbox.deployment or "", ReadKind.SAMPLE, reading.error_type, reading.window)
        if end is not None:
            return await self._record_last(sandbox, end, reading, is_final=is_final)
        interval, next_due = context.interval(sandbox), pace.next_due
        missed = pace.unread + skipped(next_due, due.at, interval) + (reading.error_type is not None)
        pace.unread = 0
        # After the reading before deletion none is due.
        pace.next_due = None if is_final or next_due is None else due.at + interval
        await context.sink.sample(sandbox, reading, missed, is_final=is_final)
        return True

    async def _record_last(self, sandbox: Tracked, end: End, reading: SampleReading, *, is_final: bool) -> bool:
        """Record a reading that was on its way when the sandbox ended; one that failed for that reason says nothing."""
        start_ns, failed = reading.window.start_ns, reading.usage is None
        ended_ns = sender_clock.ended_ns(sandbox.lifecycle, end)
        says_something = start_ns < self._endings.doomed_from_ns(sandbox) if failed else start_ns <= ended_ns
        if says_something:
            await self._context.sink.sample(sandbox, reading, int(failed), is_final=is_final)
        self._endings.plan_after_end(sandbox)
        return says_something

    def _discovered(self, sandbox: Tracked, reading: SampleReading) -> None:
        start = sandbox.lifecycle.start
        started_ns = sender_clock.started_ns(start) if start is not None and sandbox.progress.readings == 1 else None
        if started_ns is not None and started_ns <= reading.window.end_ns:
            self._context.metrics.discovery_lag(sandbox.deployment or "", (reading.window.end_ns - started_ns) / 1e9)

    def _plan_next(self, sandbox: Tracked, due: Due, pace: Pace, *, is_first: bool) -> None:
        context, failures, own_phase = self._context, pace.failures, sandbox.phase
        now, interval = context.clock.monotonic(), context.interval(sandbox)
        if pace.final is not None:
            if not pace.final.done():  # asked for too late for this reading
                context.schedule.put(sandbox.key, Task.SAMPLE, now)
            return
        if is_first:
            # It came when it could, off its phase: until it was through nothing else was due.
            pace.next_due = next_on_phase(max(due.at, now - interval / 2), interval, own_phase)
        intervals = math.floor(back_off(interval, failures - 1) / interval) if failures > 0 else 1
        if sandbox.progress.paused:
            intervals = math.ceil(context.paused_stretch(sandbox.deployment or ""))
        at = next_on_phase(due.at + (intervals - 1) * interval, interval, own_phase)
        if at < now:
            # Overdue by more than a whole interval: the ticks in between are missed, never made up for.
            at = next_on_phase(now - interval / 2, interval, own_phase)
        context.schedule.put(sandbox.key, Task.SAMPLE, at)


def _is_pod(sandbox: Tracked) -> bool:
    recorded = sandbox.progress.recorded_allocation
    designator = recorded.designator if recorded is not None else None
    return designator is not None and designator.kind == DesignatorKind.KUBERNETES


def _is_answered(sandbox: Tracked) -> bool:
    """Tell whether the control plane has said what is in force."""
    status = sandbox.progress.allocation_status
    return status is not None and status.error_type in _ANSWERED


def _is_without_container(sandbox: Tracked) -> bool:
    """Tell whether the last word was that nothing runs under the sandbox's record."""
    status = sandbox.progress.allocation_status
    return status is not None and status.error_type is ErrorType.NOT_FOUND
