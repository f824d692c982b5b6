"""What a control plane's word on a sandbox means for its life: a pure judgement, no clock of its own."""

from dataclasses import dataclass
from enum import Enum

from sandgauge_poller.reading.provider import SandboxState, StatusReading
from sandgauge_schemas.names import EndReason

NOT_FOUND_APART_NS = 5_000_000_000
"""'Not found' is an end only when it is said twice, at least this far apart: a stale cache says it too."""


class Standing(Enum):
    """Where a sandbox stands after the control plane's word."""

    ALIVE = "alive"
    PAUSED = "paused"
    ASK_AGAIN = "ask_again"
    ENDED = "ended"
    UNKNOWN = "unknown"
    """The control plane did not say: nothing changes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Standing of a sandbox; an end has its reason, and `not_found_ns` is when an unbroken 'not found' began."""

    standing: Standing
    end_reason: EndReason | None = None
    not_found_ns: int | None = None


_VERDICTS = {
    SandboxState.PENDING: Verdict(Standing.ALIVE),
    SandboxState.RUNNING: Verdict(Standing.ALIVE),
    SandboxState.PAUSED: Verdict(Standing.PAUSED),
    SandboxState.STOPPING: Verdict(Standing.ASK_AGAIN),
    SandboxState.UNKNOWN: Verdict(Standing.ASK_AGAIN),
    SandboxState.TERMINATED: Verdict(Standing.ENDED, EndReason.TERMINATED),
    SandboxState.FAILED: Verdict(Standing.ENDED, EndReason.FAILED),
}
"""What each state means by itself; 'not found' takes two answers."""


def judge(status: StatusReading, not_found_ns: int | None, expires_at_ns: int | None) -> Verdict:
    """Judge one answer, given when 'not found' was first said (None: not yet) and when the sandbox was to expire."""
    now_ns = status.window.end_ns
    if status.state is None:
        return Verdict(Standing.UNKNOWN, not_found_ns=not_found_ns)
    if status.state is not SandboxState.NOT_FOUND:
        return _VERDICTS[status.state]
    if not_found_ns is None or now_ns - not_found_ns < NOT_FOUND_APART_NS:
        return Verdict(Standing.ASK_AGAIN, not_found_ns=now_ns if not_found_ns is None else not_found_ns)
    expired = expires_at_ns is not None and expires_at_ns <= now_ns
    return Verdict(Standing.ENDED, EndReason.EXPIRED if expired else EndReason.GONE, not_found_ns)
