"""Whose first reading is next: real sandboxes must not wait behind start spans that somebody made up."""

from collections import OrderedDict

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.bounded import BoundedDict

_MOST_VOUCHED = 10_000
_TURNS_OF_THE_NEWEST = (0, 3)
"""Of four turns; the other two are those of whoever has waited longest."""


class Newcomers:
    """Sandboxes of one deployment that wait for their first reading.

    Every other turn is that of one whose run or trace has had a sandbox that answered. Both kinds are taken from both
    ends in turn: so one that comes after a flood waits for hardly any of it, and one that came before waits for no more
    than those that were there already.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[SandboxKey, Tracked] = OrderedDict()
        self._strangers: OrderedDict[SandboxKey, Tracked] = OrderedDict()
        self._vouched: BoundedDict[str | bytes, bool] = BoundedDict(_MOST_VOUCHED)
        self._turn = 0

    def __len__(self) -> int:
        return len(self._known) + len(self._strangers)

    def vouch(self, sandbox: Tracked) -> None:
        """Take the sandbox's answer as a sign that others of its run and trace are real."""
        start = sandbox.lifecycle.start
        for origin in _origins(start) if start is not None else ():
            self._vouched[origin] = True

    def add(self, sandbox: Tracked) -> None:
        """Let a sandbox wait; one that was read before is known."""
        progress = sandbox.progress
        was_read = progress.allocation is not None or progress.first_reading_ns is not None
        start = sandbox.lifecycle.start
        is_known = was_read or (start is not None and self.vouches_for(start))
        (self._known if is_known else self._strangers)[sandbox.key] = sandbox

    def vouches_for(self, start: StartEvent) -> bool:
        """Tell whether a sandbox of the same run or trace has answered."""
        return any(self._vouched.get(origin) for origin in _origins(start))

    def forget(self, sandbox: Tracked) -> None:
        """Let a sandbox wait no more."""
        for queue in (self._known, self._strangers):
            queue.pop(sandbox.key, None)

    def take(self) -> Tracked | None:
        """Take the next one out that has not ended meanwhile; None when there is none."""
        while len(self):
            self._turn += 1
            is_known = self._known and (self._turn % 2 or not self._strangers)
            queue = self._known if is_known else self._strangers
            _, sandbox = queue.popitem(last=self._turn % 4 in _TURNS_OF_THE_NEWEST)
            if sandbox.progress.end is None:
                return sandbox
        return None


def _origins(start: StartEvent) -> list[str | bytes]:
    run_id = start.record.keys.run_id
    return [start.trace_id] if run_id is None else [start.trace_id, run_id]
