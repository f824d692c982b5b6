"""One signal on its way out: when it may send again, and what the log says of it."""

import logging
from collections.abc import Callable

from tenacity import RetryCallState, Retrying, wait_exponential, wait_random
from tenacity.wait import wait_base

from sandgauge_poller.export.answer import Outcome, Verdict
from sandgauge_poller.logs import same_fault
from sandgauge_schemas.names import Signal

_BACK_OFF_BASE = 1.5
_WORDS = {
    Verdict.RETRY: "not delivered, will be sent again",
    Verdict.REJECTED: "refused for good, counted as rejected",
    Verdict.DELIVERED: "delivered with a remark",
}

_logger = logging.getLogger(__name__)


class Lane:
    """The back-off of one signal, so that an outage of one does not hold up the other.

    `due_s` is the monotonic time of the next attempt, 0 when there is nothing to wait for. tenacity says how long to
    wait; it does not do the waiting, since one thread serves all lanes.
    """

    def __init__(
        self, signal: Signal, *, initial_interval_s: float, max_interval_s: float, monotonic: Callable[[], float]
    ) -> None:
        self.signal = signal
        self.due_s = 0.0
        back_off = wait_exponential(multiplier=initial_interval_s, max=max_interval_s, exp_base=_BACK_OFF_BASE)
        self._retrying = Retrying(wait=_AsAsked(back_off + wait_random(0, initial_interval_s / 2)))
        self._monotonic = monotonic
        self._state = self._first_attempt()

    def note(self, outcome: Outcome) -> None:
        """Take the outcome of an attempt: postpone the next one, or let it come at once."""
        self._log(outcome)
        if outcome.verdict is not Verdict.RETRY:
            self._state = self._first_attempt()
            self.due_s = 0.0
            return
        self._state.set_result(outcome)
        self.due_s = self._monotonic() + self._retrying.wait(self._state)
        self._state.prepare_for_next_attempt()

    def _first_attempt(self) -> RetryCallState:
        return RetryCallState(self._retrying, fn=None, args=(), kwargs={})

    def _log(self, outcome: Outcome) -> None:
        """Log what went wrong, if anything did."""
        if not outcome.detail and not outcome.rejected:
            return
        refused = f"{outcome.rejected} refused" if outcome.rejected else ""
        detail = "; ".join(part for part in (refused, outcome.detail) if part)
        what = f"export of {self.signal.value}: {_WORDS[outcome.verdict]}"
        _logger.warning("%s: %s", what, detail, extra=same_fault(what))


class _AsAsked(wait_base):
    """Wait as long as the receiver asked for, else by the other rule."""

    def __init__(self, otherwise: wait_base) -> None:
        self._otherwise = otherwise

    def __call__(self, retry_state: RetryCallState) -> float:
        outcome: Outcome | None = retry_state.outcome.result() if retry_state.outcome else None
        if outcome is not None and outcome.retry_after_s is not None:
            return outcome.retry_after_s
        return self._otherwise(retry_state)
