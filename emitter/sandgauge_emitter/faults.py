"""What goes wrong inside the emitter: never the caller's problem, and at most one warning a minute."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath
from types import TracebackType

from sandgauge_emitter.locks import LOCK

LOGGER = logging.getLogger("sandgauge_emitter")

_PERIOD_S = 60.0


class FaultLog:
    """Counts faults and warns of them, at most once a minute, with the number since the last warning.

    `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count = 0
        self._quiet_until: float | None = None

    def note(self, fault: str) -> None:
        """Count one fault. `fault` is printed, so it must hold no value that the caller gave."""
        with LOCK:
            self._count += 1
            now = self._clock()
            if self._quiet_until is not None and now < self._quiet_until:
                return
            self._quiet_until = now + _PERIOD_S
            count, self._count = self._count, 0
        warn(f"Sandbox telemetry is incomplete: {fault} (faults since the last such warning: {count})")

    def guard(self, call: str) -> "_Guard":
        """Return a context that swallows every error of its block and notes it under the name of the call."""
        return _Guard(self, call)


class _Guard:
    __slots__ = ("_call", "_log")

    def __init__(self, log: FaultLog, call: str) -> None:
        self._log = log
        self._call = call

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        self._log.note(f"{self._call}: {describe(error)}")
        return True


FAULTS = FaultLog()
"""The faults of this process."""


def warn(message: str) -> None:
    """Log a warning. A log handler of the host that raises costs neither the caller nor the span."""
    with suppress(Exception):
        LOGGER.warning(message)


def describe(error: Exception) -> str:
    """Return the error's type and where it was raised; its message may hold secrets and stays out."""
    trace = error.__traceback__
    if trace is None:
        return type(error).__name__
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{type(error).__name__} at {PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
