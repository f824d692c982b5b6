"""How sandboxes end, or outlive their rollout: what answers mean, confirmation after a stop, leaks, summaries."""

from sandgauge_poller.reading.context import Over, ReadingContext
from sandgauge_poller.reading.missed import due_until, taken_back
from sandgauge_poller.reading.provider import ReadWindow, SandboxState, StatusReading
from sandgauge_poller.reading.questions import STATUS_APART_S, StatusQuestions
from sandgauge_poller.reading.schedule import Due, Task
from sandgauge_poller.reading.verdict import NOT_FOUND_APART_NS, Standing, Verdict, judge
from sandgauge_poller.tracking import sender_clock
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import End
from sandgauge_schemas.names import EndReason

_LAST_READING_S = 5.0
"""At most so long a summary waits for a reading that is on its way."""

_ABSENT = frozenset({EndReason.GONE, EndReason.EXPIRED})
"""Ends that the control plane itself told, twice: nothing is left to confirm."""

_KEPT = frozenset({EndReason.FAILED, EndReason.TERMINATED})
"""Ends after which the control plane keeps the record for a while."""

_ALIVE = frozenset({Standing.ALIVE, Standing.PAUSED})

_STILL_THERE = frozenset({SandboxState.RUNNING, SandboxState.PAUSED, SandboxState.PENDING})


class Endings:
    """Everything about a sandbox's end."""

    def __init__(self, context: ReadingContext, questions: StatusQuestions) -> None:
        self._context = context
        self._questions = questions

    async def read_status(self, sandbox: Tracked) -> tuple[Standing, ReadWindow]:
        """Ask once and apply what the answer means, an end included; return where it stands, and when it was asked."""
        progress = sandbox.progress
        status = await self._questions.ask(sandbox)
        if progress.end is not None:
            return Standing.ENDED, status.window
        verdict = judge(status, progress.not_found_ns, progress.expires_at_ns)
        if verdict.end_reason in _KEPT:
            verdict = await self._told_twice(sandbox, verdict, status.window.end_ns)
        if verdict.standing is Standing.ENDED and verdict.end_reason is not None:
            await self._end_as_told(sandbox, verdict.end_reason, status.window.end_ns)
        else:
            self._plan_after_status(sandbox, status, verdict.standing)
            await self._keep_status(sandbox, status, verdict)
        return verdict.standing, status.window

    def _plan_after_status(self, sandbox: Tracked, status: StatusReading, standing: Standing) -> None:
        schedule, now = self._context.schedule, self._context.clock.monotonic()
        if standing is Standing.ALIVE and sandbox.progress.paused:
            # What it resumed as may be another pod, on another host.
            schedule.put(sandbox.key, Task.ALLOCATION, now)
        if standing is Standing.UNKNOWN:
            schedule.put(sandbox.key, Task.STATUS, now + self._questions.turn_s(sandbox))
        elif standing is Standing.ASK_AGAIN:
            schedule.put(sandbox.key, Task.STATUS, now + STATUS_APART_S)
        elif status.expires_at_ns is not None and status.expires_at_ns > status.window.end_ns:
            # Renewed by then, or gone: either way the record says so just after the time it now names.
            wait = (status.expires_at_ns - status.window.end_ns) / 1e9
            schedule.put(sandbox.key, Task.STATUS, now + wait + 1.0)

    async def _keep_status(self, sandbox: Tracked, status: StatusReading, verdict: Verdict) -> None:
        progress = sandbox.progress
        was_paused = progress.paused
        if verdict.standing is not Standing.UNKNOWN:
            self._context.set_paused(sandbox, paused=verdict.standing is Standing.PAUSED)
        if verdict.standing in _ALIVE:
            pace = self._context.pace(sandbox)
            pace.last_alive_ns, pace.over = status.window.start_ns, None
        known = status.state not in (None, SandboxState.NOT_FOUND)
        expires_at_ns = status.expires_at_ns if known else progress.expires_at_ns
        known_before = (was_paused, progress.not_found_ns, progress.expires_at_ns)
        if known_before != (progress.paused, verdict.not_found_ns, expires_at_ns):
            progress.not_found_ns, progress.expires_at_ns = verdict.not_found_ns, expires_at_ns
            await self._context.sink.changed(sandbox)

    async def _told_twice(self, sandbox: Tracked, verdict: Verdict, now_ns: int) -> Verdict:
        """Believe that a container is over when it is told again, or was killed for memory.

        A container that is being deleted looks like one that failed, for a moment: the stop, or a 'not found', follows.
        """
        pace = self._context.pace(sandbox)
        over = pace.over
        if over is None or over.reason is not verdict.end_reason:
            # The record outlives the container for a while, and only it says whether memory was the reason.
            reading = await self._context.provider(sandbox).read_allocation(sandbox.key.sandbox_id)
            over = pace.over = Over(verdict.end_reason or EndReason.FAILED, now_ns, reading.oom_killed)
        if over.oom_killed or now_ns - over.at_ns >= NOT_FOUND_APART_NS:
            return verdict
        return Verdict(Standing.ASK_AGAIN)

    async def _end_as_told(self, sandbox: Tracked, reason: EndReason, at_ns: int) -> None:
        """End a sandbox whose control plane says so."""
        over = self._context.pace(sandbox).over
        if over is not None and over.reason is reason:
            at_ns = self._take_over(sandbox, over)
        await self.end(sandbox, reason, at_ns)

    def _take_over(self, sandbox: Tracked, over: Over) -> int:
        """Keep what is known of a container that is over; return since when."""
        if over.oom_killed is not None:
            sandbox.progress.oom_killed = over.oom_killed
        return over.at_ns

    async def check_status(self, sandbox: Tracked, due: Due) -> None:
        """Answer a planned status question."""
        del due
        await self.read_status(sandbox)

    async def end(self, sandbox: Tracked, reason: EndReason, at_ns: int) -> None:
        """End a sandbox: no more readings, closed series, and what is left to do after.

        A stop that arrives after the control plane's 'not found' is the reason for it.
        """
        context, progress = self._context, sandbox.progress
        if progress.end is not None:
            if reason is EndReason.STOPPED and progress.end.reason in _ABSENT and not progress.summarised:
                progress.end = End(reason, at_ns)
                self._settle_missed(sandbox)
                await context.sink.changed(sandbox)
            return
        over, stop_began_ns = context.pace(sandbox).over, sender_clock.stop_began_ns(sandbox.lifecycle)
        if reason is EndReason.STOPPED and over and over.at_ns < (stop_began_ns or 0):
            # It was over before anybody stopped it.
            reason, at_ns = over.reason, self._take_over(sandbox, over)
        progress.end = End(reason, at_ns)
        progress.ended_seen_ns = context.clock.now_ns()
        progress.confirmed = reason in _ABSENT
        self._settle_missed(sandbox)
        self.leave(sandbox)
        # Planned first: a record that fails must not leave the sandbox without the rest of its end.
        self.plan_after_end(sandbox)
        await context.sink.ended(sandbox)

    def leave(self, sandbox: Tracked) -> None:
        """Let a sandbox be that is read no more."""
        self._context.leave(sandbox)
        self._questions.forget(sandbox)

    def doomed_from_ns(self, sandbox: Tracked) -> int:
        """Return since when, in ns since the epoch, a reading could only fail since the sandbox was ending."""
        end = sandbox.progress.end
        if end is not None and end.reason is EndReason.STOPPED:
            return sender_clock.stop_began_ns(sandbox.lifecycle) or end.at_ns
        # Nobody says when it went: at the earliest after it was last known to be alive.
        pace = self._context.paces.get(sandbox.key)
        return pace.last_alive_ns if pace is not None else 0

    def plan_after_end(self, sandbox: Tracked) -> None:
        """Plan what an ended sandbox still needs: its summary, and the question that confirms its end."""
        context, progress = self._context, sandbox.progress
        now, now_ns = context.clock.monotonic(), context.clock.now_ns()
        since_end = (now_ns - (progress.ended_seen_ns or now_ns)) / 1e9
        if not progress.summarised:
            delay = self._last_reading_s(sandbox) if self._summary_is_ripe(sandbox) else context.settings.summary_delay
            wait = delay - since_end
            context.schedule.put(sandbox.key, Task.SUMMARY, now + max(0.0, wait))
        elif progress.confirmed:
            context.schedule.put(sandbox.key, Task.SUMMARY, now)  # all is recorded: it only is to be let go
        if not progress.confirmed:
            wait = context.settings.orphan_grace - since_end
            context.schedule.put(sandbox.key, Task.CONFIRM_END, now + max(0.0, wait))

    def plan_leak_check(self, sandbox: Tracked) -> None:
        """Plan the look at a sandbox that lives on after its rollout has ended."""
        context, rollout = self._context, sandbox.rollout
        if rollout is None or sandbox.progress.leaked:
            return
        since = (context.clock.now_ns() - rollout.received_ns) / 1e9
        wait = max(0.0, context.settings.orphan_grace - since)
        context.schedule.put(sandbox.key, Task.LEAK_CHECK, context.clock.monotonic() + wait)

    async def check_leak(self, sandbox: Tracked, due: Due) -> None:
        """Mark a sandbox as leaked if its control plane still has it; ask again where that is not known."""
        del due
        standing, _ = await self.read_status(sandbox)
        if standing in _ALIVE:
            sandbox.progress.leaked = True
            await self._context.sink.changed(sandbox)
        elif standing is not Standing.ENDED:
            at = self._context.clock.monotonic() + self._questions.retry_s(sandbox)
            self._context.schedule.put(sandbox.key, Task.LEAK_CHECK, at)

    async def confirm_end(self, sandbox: Tracked, due: Due) -> bool:
        """Ask once whether an ended sandbox is really gone; return True when it lives on and is to be read again."""
        del due
        context, progress = self._context, sandbox.progress
        if progress.end is None:
            return False
        status = await self._questions.ask(sandbox)
        if status.state in _STILL_THERE:
            is_stopped = sandbox.lifecycle.stop is not None
            progress.leaked = progress.leaked or is_stopped
            progress.stop_overruled = is_stopped
            progress.end = progress.ended_seen_ns = progress.not_found_ns = None
            progress.confirmed = progress.summarised = False
            context.set_paused(sandbox, paused=status.state is SandboxState.PAUSED)
            context.pace(sandbox).over = None
            context.schedule.drop(sandbox.key, Task.SUMMARY)
            await context.sink.changed(sandbox)
            return True
        if status.state in (None, SandboxState.STOPPING, SandboxState.UNKNOWN):
            at = context.clock.monotonic() + self._questions.retry_s(sandbox)
            context.schedule.put(sandbox.key, Task.CONFIRM_END, at)
            return False
        progress.confirmed = True
        await context.sink.changed(sandbox)
        await self.finish_if_done(sandbox)
        return False

    async def summarise(self, sandbox: Tracked, due: Due) -> None:
        """Record the summary once its rollout is known or has been waited for long enough."""
        del due
        progress = sandbox.progress
        if progress.end is None:
            return
        if progress.ended_before_it_was_inherited:
            progress.summarised = progress.confirmed = True
        elif not progress.summarised:
            await self._context.sink.summary(sandbox)
        await self.finish_if_done(sandbox)

    async def finish_if_done(self, sandbox: Tracked) -> None:
        """Let go of a sandbox whose summary is recorded and whose end is confirmed."""
        context, progress = self._context, sandbox.progress
        if progress.summarised and progress.confirmed:
            context.schedule.drop(sandbox.key)
            self._questions.forget(sandbox)
            context.paces.pop(sandbox.key, None)
            await context.finish(sandbox)

    def _settle_missed(self, sandbox: Tracked) -> None:
        """Take back the failures that the end itself explains; add the readings that back-off put off until then."""
        context, progress, pace = self._context, sandbox.progress, self._context.pace(sandbox)
        doomed_ns, interval = self.doomed_from_ns(sandbox), context.interval(sandbox)
        missed = progress.missed - taken_back(
            progress.failed_in_a_row_ns, progress.last_reading_ns, doomed_ns, interval, resumed_ns=pace.resumed_ns
        )
        if pace.failures > 0 and pace.next_due is not None:
            doomed = context.clock.monotonic() - (context.clock.now_ns() - doomed_ns) / 1e9
            missed += due_until(pace.next_due, doomed, interval)
        progress.missed = max(0, missed) + pace.unread
        progress.failed_in_a_row_ns = []
        if (usage := progress.usage) is not None:
            usage.missed -= sum(failed_ns >= doomed_ns for failed_ns in usage.failed_in_a_row_ns)
            usage.failed_in_a_row_ns = []
        pace.failures, pace.next_due, pace.unread = 0, None, 0

    def _last_reading_s(self, sandbox: Tracked) -> float:
        pace = self._context.paces.get(sandbox.key)
        return _LAST_READING_S if pace is not None and pace.is_reading else 0.0

    def _summary_is_ripe(self, sandbox: Tracked) -> bool:
        start = sandbox.lifecycle.start
        return sandbox.keys.rollout_id is not None or start is None or start.parent_span_id is None
