"""How often a control plane is asked about each sandbox, and what its silence puts off."""

from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.reading.provider import StatusReading
from sandgauge_poller.reading.schedule import LONGEST_BACK_OFF_S, Task
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_schemas.names import ReadKind

STATUS_APART_S = 5.0
"""A sandbox's failures ask the control plane no more often than this; it is also the gap between two 'not found'."""

_RETRY_S = 30.0
"""How long a question waits at least after a control plane that did not say."""


class StatusQuestions:
    """Asks whether a sandbox still is; each question is one GET to its control plane.

    Sandboxes of which it does not say are asked for in turn, so that a control plane in trouble gets one question an
    interval; once it speaks again they are taken up at once.
    """

    def __init__(self, context: ReadingContext) -> None:
        self._context = context
        self._unanswered: dict[str, dict[SandboxKey, Tracked]] = {}

    def plan(self, sandbox: Tracked) -> None:
        """Plan a question soon, unless one was just asked or waits for its turn."""
        context = self._context
        if sandbox.key in self._waiting(sandbox):
            return
        at = max(context.clock.monotonic(), context.pace(sandbox).last_status + STATUS_APART_S)
        planned = context.schedule.at(sandbox.key, Task.STATUS)
        if planned is None or at < planned:
            context.schedule.put(sandbox.key, Task.STATUS, at)

    async def ask(self, sandbox: Tracked) -> StatusReading:
        """Ask once."""
        context, pace = self._context, self._context.pace(sandbox)
        status = await context.provider(sandbox).read_status(sandbox.key.sandbox_id)
        pace.last_status = context.clock.monotonic()
        context.metrics.read(sandbox.deployment or "", ReadKind.STATUS, status.error_type, status.window)
        if status.state is None:
            self._waiting(sandbox)[sandbox.key] = sandbox
        else:
            pace.taken_up = float("-inf")
            self._take_up_again(sandbox.deployment or "")
        return status

    def turn_s(self, sandbox: Tracked) -> float:
        """Return how long a sandbox waits for its next turn: all of a deployment's together ask once an interval."""
        return self._context.interval(sandbox) * len(self._waiting(sandbox))

    def retry_s(self, sandbox: Tracked) -> float:
        """Return how long a question waits that was answered with nothing."""
        return max(_RETRY_S, self.turn_s(sandbox))

    def forget(self, sandbox: Tracked) -> None:
        """Wait no longer for word on a sandbox."""
        self._waiting(sandbox).pop(sandbox.key, None)

    def _waiting(self, sandbox: Tracked) -> dict[SandboxKey, Tracked]:
        return self._unanswered.setdefault(sandbox.deployment or "", {})

    def _take_up_again(self, deployment: str) -> None:
        """Ask and read at once, within the rate, what could not be while the control plane said nothing."""
        context = self._context
        now = context.clock.monotonic()
        for sandbox in self._unanswered.pop(deployment, {}).values():
            pace = context.pace(sandbox)
            if now - pace.taken_up < LONGEST_BACK_OFF_S:
                # It is this sandbox of which nothing is said, and not the control plane.
                self._waiting(sandbox)[sandbox.key] = sandbox
                continue
            pace.taken_up, at = now, context.first_reads[deployment].claim(now)
            sooner = {Task.STATUS, Task.CONFIRM_END}
            if pace.failures:
                sooner.add(Task.SAMPLE)
            if pace.allocation_failures:
                sooner.add(Task.ALLOCATION)
            pace.failures = 0
            for task in sooner:
                planned = context.schedule.at(sandbox.key, task)
                if planned is not None and at < planned:
                    context.schedule.put(sandbox.key, task, at)
