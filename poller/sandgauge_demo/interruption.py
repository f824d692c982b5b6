"""Ctrl-C as a wish to be asked for at the right moments, so that no part is left behind half started."""

import signal
import time
from types import FrameType, TracebackType
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptedByUserError(Exception):
    """Somebody wants the program to end."""


class Interruption:
    """Notes SIGINT, SIGTERM and SIGHUP while its context is open, in the main thread. Only `pause` acts on them."""

    def __init__(self) -> None:
        self._is_wished = False

    def __enter__(self) -> Self:
        """Take the signals over."""
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def pause(self, seconds: float) -> None:
        """Let a short time pass. Raise InterruptedByUserError when the program is to end."""
        time.sleep(seconds)
        if self._is_wished:
            raise InterruptedByUserError

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._is_wished = True
