"""How sandboxes end, or outlive their rollout: status questions, confirmation after a stop, leaks, summaries."""

from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.reading.provider import ReadWindow, SandboxState, StatusReading
from sandgauge_poller.reading.schedule import Due, Task
from sandgauge_poller.reading.verdict import Standing, Verdict, judge
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import End
from sandgauge_schemas.names import EndReason, ReadKind

_STATUS_APART_S = 5.0
"""A sandbox's failures ask the control plane no more often than this; it is also the gap between two 'not found'."""

_CONFIRM_RETRY_S = 30.0
"""How long a confirmation waits after a control plane that did not say."""

_ABSENT = frozenset({EndReason.GONE, EndReason.EXPIRED})
"""Ends that the control plane itself told, twice: nothing is left to confirm."""

_STILL_THERE = frozenset({SandboxState.RUNNING, SandboxState.PAUSED, SandboxState.PENDING})


class Endings:
    """Everything about a sandbox's end; each question is one GET to its control plane."""

    def __init__(self, context: ReadingContext) -> None:
        self._context = context

    def ask_status(self, sandbox: Tracked) -> None:
        """Plan a status question soon, unless one was just asked."""
        context = self._context
        at = max(context.clock.monotonic(), context.pace(sandbox).last_status + _STATUS_APART_S)
        planned = context.schedule.at(sandbox.key, Task.STATUS)
        if planned is None or at < planned:
            context.schedule.put(sandbox.key, Task.STATUS, at)

    async def read_status(self, sandbox: Tracked) -> tuple[Verdict, ReadWindow]:
        """Ask once and apply what the answer means, an end included."""
        context, progress = self._context, sandbox.progress
        status = await self._ask(sandbox)
        if progress.end is not None:
            return Verdict(Standing.ENDED, progress.end.reason), status.window
        verdict = judge(status, progress.not_found_ns, progress.expires_at_ns)
        known = status.state not in (None, SandboxState.NOT_FOUND)
        expires_at_ns = status.expires_at_ns if known else progress.expires_at_ns
        if verdict.standing is not Standing.UNKNOWN:
            sandbox.paused = verdict.standing is Standing.PAUSED
        if (progress.not_found_ns, progress.expires_at_ns) != (verdict.not_found_ns, expires_at_ns):
            progress.not_found_ns, progress.expires_at_ns = verdict.not_found_ns, expires_at_ns
            await context.sink.changed(sandbox)
        now = context.clock.monotonic()
        if verdict.standing is Standing.ENDED and verdict.end_reason is not None:
            await self.end(sandbox, verdict.end_reason, status.window.end_ns)
        elif verdict.standing is Standing.ASK_AGAIN:
            context.schedule.put(sandbox.key, Task.STATUS, now + _STATUS_APART_S)
        elif known and expires_at_ns is not None and expires_at_ns > status.window.end_ns:
            # Renewed by then, or gone: either way the record says so just after the time it now names.
            wait = (expires_at_ns - status.window.end_ns) / 1e9
            context.schedule.put(sandbox.key, Task.STATUS, now + wait + 1.0)
        return verdict, status.window

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
                await context.sink.changed(sandbox)
            return
        progress.end = End(reason, at_ns)
        progress.ended_seen_ns = context.clock.now_ns()
        if reason is EndReason.STOPPED and sandbox.lifecycle.stop is not None:
            self._forgive(sandbox, sandbox.lifecycle.stop.start_ns)
        progress.confirmed = reason in _ABSENT
        context.live.get(sandbox.deployment or "", set()).discard(sandbox.key)
        context.schedule.drop(sandbox.key)
        provider = context.provider(sandbox)
        if reason in (EndReason.FAILED, EndReason.TERMINATED):
            # The record outlives the container for a while, and only it says whether memory was the reason.
            reading = await provider.read_allocation(sandbox.key.sandbox_id)
            progress.oom_killed = reading.oom_killed if reading.oom_killed is not None else progress.oom_killed
        provider.forget(sandbox.key.sandbox_id)
        await context.sink.ended(sandbox)
        self.plan_after_end(sandbox)

    def plan_after_end(self, sandbox: Tracked) -> None:
        """Plan what an ended sandbox still needs: its summary, and the question that confirms its end."""
        context, progress = self._context, sandbox.progress
        now, now_ns = context.clock.monotonic(), context.clock.now_ns()
        since_end = (now_ns - (progress.ended_seen_ns or now_ns)) / 1e9
        if not progress.summarised:
            wait = 0.0 if self._summary_is_ripe(sandbox) else context.settings.summary_delay - since_end
            context.schedule.put(sandbox.key, Task.SUMMARY, now + max(0.0, wait))
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
        verdict, _ = await self.read_status(sandbox)
        if verdict.standing in (Standing.ALIVE, Standing.PAUSED):
            sandbox.progress.leaked = True
            await self._context.sink.changed(sandbox)
        elif verdict.standing is not Standing.ENDED:
            at = self._context.clock.monotonic() + _CONFIRM_RETRY_S
            self._context.schedule.put(sandbox.key, Task.LEAK_CHECK, at)

    async def confirm_end(self, sandbox: Tracked, due: Due) -> bool:
        """Ask once whether an ended sandbox is really gone; return True when it lives on and is to be read again."""
        del due
        context, progress = self._context, sandbox.progress
        status = await self._ask(sandbox)
        if progress.end is None:
            return False
        if status.state in _STILL_THERE:
            progress.leaked = progress.leaked or progress.end.reason is EndReason.STOPPED
            progress.stop_overruled = True
            progress.end = progress.ended_seen_ns = None
            progress.confirmed = progress.summarised = False
            context.schedule.drop(sandbox.key)
            await context.sink.changed(sandbox)
            return True
        if status.state in (None, SandboxState.STOPPING, SandboxState.UNKNOWN):
            at = context.clock.monotonic() + _CONFIRM_RETRY_S
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
        if progress.end is None or progress.summarised:
            return
        await self._context.sink.summary(sandbox)
        await self.finish_if_done(sandbox)

    async def finish_if_done(self, sandbox: Tracked) -> None:
        """Let go of a sandbox whose summary is recorded and whose end is confirmed."""
        context, progress = self._context, sandbox.progress
        if progress.summarised and progress.confirmed:
            context.schedule.drop(sandbox.key)
            context.paces.pop(sandbox.key, None)
            await context.finish(sandbox)

    @staticmethod
    def _forgive(sandbox: Tracked, stop_began_ns: int | None) -> None:
        """Take back readings counted as missed although the deletion had begun before them."""
        if stop_began_ns is not None:
            forgiven = sum(1 for start_ns in sandbox.progress.failed_in_a_row_ns if start_ns >= stop_began_ns)
            sandbox.progress.missed -= forgiven

    def _summary_is_ripe(self, sandbox: Tracked) -> bool:
        start = sandbox.lifecycle.start
        return sandbox.keys.rollout_id is not None or start is None or start.parent_span_id is None

    async def _ask(self, sandbox: Tracked) -> StatusReading:
        context = self._context
        status = await context.provider(sandbox).read_status(sandbox.key.sandbox_id)
        context.pace(sandbox).last_status = context.clock.monotonic()
        context.metrics.read(sandbox.deployment or "", ReadKind.STATUS, status.error_type, status.window)
        return status
