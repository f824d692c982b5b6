"""The reading before deletion: after it a sandbox is not read on its interval any more, unless it lives on."""

import asyncio

from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.reading.endings import Endings
from sandgauge_poller.reading.schedule import Due, Task, next_on_phase
from sandgauge_poller.reading.verdict import Standing
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_schemas.names import SandboxState

STOP_WITHIN_S = 30.0
"""How long a stop span may take to come: the deletion itself, and seconds of batching on its way here."""

_ASK_AGAIN_S = 5.0
"""How long a state that decides nothing waits for the next question."""


class BeforeDeletion:
    """Hold the periodic readings of a sandbox that is about to be deleted.

    A restart forgets the hold: the sandbox is then read on as any other, and its stop span ends that.
    """

    def __init__(self, context: ReadingContext, endings: Endings) -> None:
        self._context = context
        self._endings = endings

    def is_readable(self, sandbox: Tracked) -> bool:
        """Whether the sandbox's daemon is read, and it runs and has not been stopped."""
        context = self._context
        stopped = sandbox.lifecycle.stop is not None and not sandbox.progress.stop_overruled
        return not stopped and context.state(sandbox) is SandboxState.ACTIVE and context.reads_execd(sandbox)

    def hold(self, sandbox: Tracked) -> asyncio.Future[FinalReading]:
        """Let the next reading be the last one, and return what is done with it; those who ask meanwhile share it."""
        context, pace = self._context, self._context.pace(sandbox)
        if pace.final is None or pace.final.done():
            pace.final = asyncio.get_running_loop().create_future()
        context.schedule.drop(sandbox.key, Task.SAMPLE)
        context.schedule.put(sandbox.key, Task.RESUME, context.clock.monotonic() + STOP_WITHIN_S)
        return pace.final

    def stop_failed(self, sandbox: Tracked) -> None:
        """Read a sandbox on that could not be deleted; while its last reading is on its way, an earlier try failed."""
        pace = self._context.paces.get(sandbox.key)
        if pace is not None and pace.final is not None and pace.final.done():
            self._resume(sandbox)

    async def check(self, sandbox: Tracked, due: Due) -> None:
        """Ask for the state of a sandbox whose stop has not come, and read it on unless it is going or gone."""
        del due
        schedule = self._context.schedule
        standing, _ = await self._endings.read_status(sandbox)
        if standing is Standing.ENDED or schedule.at(sandbox.key, Task.RESUME) is not None:
            return  # ended, or about to be deleted anew
        if standing is Standing.ASK_AGAIN:
            schedule.drop(sandbox.key, Task.STATUS)  # this question takes its place
            schedule.put(sandbox.key, Task.RESUME, self._context.clock.monotonic() + _ASK_AGAIN_S)
        else:
            self._resume(sandbox)

    def _resume(self, sandbox: Tracked) -> None:
        """Read on from the next tick of the sandbox's own phase; what would have been due until now is not missed."""
        context, pace, interval = self._context, self._context.pace(sandbox), self._context.interval(sandbox)
        pace.final = None
        pace.resumed_ns = context.clock.now_ns()
        context.schedule.drop(sandbox.key, Task.RESUME)
        at = next_on_phase(context.clock.monotonic() - interval / 2, interval, sandbox.phase)
        context.schedule.put(sandbox.key, Task.SAMPLE, at)
