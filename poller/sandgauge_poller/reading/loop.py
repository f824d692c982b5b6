"""The reading loop: changes of the active set in, due tasks out, each in a task of its own."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.before_deletion import BeforeDeletion
from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.reading.endings import Endings
from sandgauge_poller.reading.questions import StatusQuestions
from sandgauge_poller.reading.sampling import Sampling
from sandgauge_poller.reading.schedule import EVERY, WHILE_ALIVE, Due, Task, next_on_phase
from sandgauge_poller.tracking.active_set import ActiveSet, Change, ChangeKind, SandboxKey, Tracked
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import ConflictKind, EndReason, ErrorType, SandboxState

logger = logging.getLogger(__name__)

_AFTER_FAULT_S = 10.0
"""How long a task waits after an error of our own, so that it never spins."""

_Handler = Callable[[Tracked, Due], Awaitable[None]]


class ReadingLoop:
    """Read every sandbox that is to be read; one sick sandbox delays no other."""

    def __init__(self, context: ReadingContext, active: ActiveSet) -> None:
        self._context = context
        self._active = active
        self._questions = StatusQuestions(context)
        self._endings = Endings(context, self._questions)
        self._sampling = Sampling(context, self._endings, self._questions)
        self._before_deletion = BeforeDeletion(context, self._endings)
        self._wake = asyncio.Event()
        self._waits_until: float | None = None
        self._going = asyncio.Event()
        self._going.set()
        self._running: dict[tuple[SandboxKey, Task], asyncio.Task[None]] = {}
        self._handlers: dict[Task, _Handler] = {
            Task.STOP: self._stop,
            Task.ALLOCATION: self._sampling.read_allocation,
            Task.SAMPLE: self._sampling.read_sample,
            Task.RESUME: self._before_deletion.check,
            Task.STATUS: self._endings.check_status,
            Task.LEAK_CHECK: self._endings.check_leak,
            Task.CONFIRM_END: self._confirm_end,
            Task.SUMMARY: self._endings.summarise,
        }

    async def run(self) -> None:
        """Start what is due, for ever; ends by cancellation, which waits for nothing."""
        schedule, monotonic = self._context.schedule, self._context.clock.monotonic
        call_later = asyncio.get_running_loop().call_later
        while True:
            await self._going.wait()
            self._wake.clear()
            for due in schedule.pop_due(monotonic()):
                self._start(due)
            self._waits_until = schedule.next_due()
            timer = None
            if self._waits_until is not None:
                timer = call_later(max(0.0, self._waits_until - monotonic()), self._wake.set)
            try:
                await self._wake.wait()
            finally:
                if timer is not None:
                    timer.cancel()

    def _wake_for_what_is_sooner(self) -> None:
        """Wake the loop if something was planned for before the time that it waits for."""
        next_due = self._context.schedule.next_due()
        if next_due is not None and (self._waits_until is None or next_due < self._waits_until):
            self._wake.set()

    async def hold(self, patience_s: float) -> None:
        """Begin nothing new, and return when what is in flight is through, or after so many seconds."""
        self._going.clear()
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=patience_s)

    def go_on(self) -> None:
        """Read on after `hold`."""
        self._going.set()
        self._wake.set()

    def let_go(self, sandboxes: Collection[Tracked]) -> None:
        """Leave sandboxes that are in the active set no more: nothing of them has ended."""
        for sandbox in sandboxes:
            self._endings.leave(sandbox)
            self._context.schedule.drop(sandbox.key)
            self._context.paces.pop(sandbox.key, None)
            for task in EVERY:
                running = self._running.get((sandbox.key, task))
                if running is not None:
                    running.cancel()

    async def stop(self) -> None:
        """Cancel every reading in flight."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def final_reading(self, sandbox_id: str) -> FinalReading:
        """Read a sandbox that is about to be deleted once more; return once the record is committed.

        Where several deployments have that id, it is done in each: the ones that live on are read on later.
        """
        now = self._context.clock.monotonic()
        asked = []
        for sandbox in filter(self._before_deletion.is_readable, self._active.with_id(sandbox_id)):
            asked.append(self._before_deletion.hold(sandbox))
            self._start(Due(sandbox.key, Task.SAMPLE, now))
        if not asked:
            return FinalReading.NOT_READ
        done, _ = await asyncio.wait(asked)  # which cancels nothing when the asker has waited long enough
        outcomes = {reading.result() for reading in done}
        return FinalReading.RECORDED if FinalReading.RECORDED in outcomes else FinalReading.NOT_READ

    def is_live(self, sandbox: Tracked) -> bool:
        """Tell whether its usage is worth asking for: it is read, and as far as is known it lives."""
        return self._going.is_set() and self._context.state(sandbox) in (SandboxState.ACTIVE, SandboxState.PAUSED)

    def usage_answered(self, sandbox: Tracked, error_type: ErrorType | None) -> None:
        """Ask for a sandbox's state where no reading of its daemon does: it may have ended, or have been resumed."""
        if not self._context.reads_execd(sandbox) and (error_type is not None or sandbox.progress.paused):
            self._questions.plan(sandbox)
            self._wake.set()

    def on_change(self, change: Change) -> None:
        """Take up a change of the active set; returns at once."""
        sandbox = change.sandbox
        match change.kind:
            case ChangeKind.STARTED | ChangeKind.RESTORED:
                self._take_up(sandbox)
            case ChangeKind.STOPPED:
                self._plan_stop(sandbox)
            case ChangeKind.STOP_FAILED:
                self._before_deletion.stop_failed(sandbox)
            case ChangeKind.KEYS_LEARNT:
                self._keys_learnt(sandbox)
            case ChangeKind.DISPLACED:
                self.let_go([sandbox])
            case ChangeKind.CONFLICTED:
                self._context.metrics.conflict(ConflictKind.ROLLOUT)
        self._wake.set()

    def _take_up(self, sandbox: Tracked) -> None:
        progress = sandbox.progress
        is_stopped = sandbox.lifecycle.stop is not None and progress.end is None and not progress.stop_overruled
        if is_stopped or not self._context.is_read(sandbox):  # it may have been read by an earlier configuration
            self._plan_stop(sandbox)
        elif progress.end is None:
            self._begin(sandbox)
            self._sampling.remember(sandbox)
        else:
            self._endings.plan_after_end(sandbox)

    def _begin(self, sandbox: Tracked) -> None:
        self._sampling.begin(sandbox)
        self._endings.plan_leak_check(sandbox)

    def _plan_stop(self, sandbox: Tracked) -> None:
        self._context.schedule.put(sandbox.key, Task.STOP, self._context.clock.monotonic())

    async def _stop(self, sandbox: Tracked, due: Due) -> None:
        del due
        stop = sandbox.lifecycle.stop
        if not self._context.is_read(sandbox):
            await self._leave_unread(sandbox)
            if stop is not None:
                await self._context.finish(sandbox)
        elif stop is None:
            return
        elif sandbox.progress.stop_overruled:
            self._questions.plan(sandbox)
        else:
            at_ns = stop.end_ns or stop.start_ns or stop.received_ns
            await self._endings.end(sandbox, EndReason.STOPPED, at_ns)

    async def _leave_unread(self, sandbox: Tracked) -> None:
        """Close what a sandbox has that was read until it turned out not to be, once no reading is in flight."""
        if not sandbox.progress.series and sandbox.key not in self._context.paces:
            return
        in_flight = [self._running[sandbox.key, task] for task in WHILE_ALIVE if (sandbox.key, task) in self._running]
        if in_flight:
            await asyncio.wait(in_flight)
        self._endings.leave(sandbox)
        self._context.paces.pop(sandbox.key, None)
        await self._context.sink.ended(sandbox)

    def _keys_learnt(self, sandbox: Tracked) -> None:
        """Plan what follows from its keys; by an earlier start span it may be read now, or not any more."""
        if not self._context.is_read(sandbox):
            self._plan_stop(sandbox)
        elif sandbox.progress.end is None and sandbox.key not in self._context.paces:
            self._begin(sandbox)
        elif sandbox.progress.end is None:
            self._endings.plan_leak_check(sandbox)
        else:
            self._endings.plan_after_end(sandbox)

    async def _confirm_end(self, sandbox: Tracked, due: Due) -> None:
        if await self._endings.confirm_end(sandbox, due):
            self._begin(sandbox)

    def _start(self, due: Due) -> None:
        key = due.key
        if isinstance(key, str):
            self._sampling.admit(key)
            return
        sandbox = self._active.get(key) if isinstance(key, SandboxKey) else None
        if sandbox is None:
            self._context.schedule.drop(due.key)
            return
        if due.task in WHILE_ALIVE and (sandbox.progress.end is not None or not self._context.is_read(sandbox)):
            return
        if (sandbox.key, due.task) in self._running:
            return  # it plans its own next time when it is through
        task = asyncio.create_task(self._run_task(sandbox, due))
        self._running[sandbox.key, due.task] = task

    async def _run_task(self, sandbox: Tracked, due: Due) -> None:
        try:
            await self._handlers[due.task](sandbox, due)
        except StateError:  # of which the store itself tells the log, once a minute
            if due.task is Task.SAMPLE:
                self._read_on(sandbox, due)
            else:
                self._again_after_fault(due)
        except Exception:
            logger.exception("%s of a sandbox failed; it is tried again in %g s", due.task.value, _AFTER_FAULT_S)
            self._again_after_fault(due)
        finally:
            self._running.pop((sandbox.key, due.task), None)
            end = sandbox.progress.end
            if end is not None and end.reason is EndReason.GONE:
                self._active.deny(sandbox)
            self._wake_for_what_is_sooner()

    def _read_on(self, sandbox: Tracked, due: Due) -> None:
        """Plan the next reading as ever: the disk, which could not take this one, may have room by then."""
        at = next_on_phase(due.at, self._context.interval(sandbox), sandbox.phase)
        self._context.schedule.put(due.key, due.task, max(at, self._context.clock.monotonic()))

    def _again_after_fault(self, due: Due) -> None:
        self._context.schedule.put(due.key, due.task, self._context.clock.monotonic() + _AFTER_FAULT_S)
