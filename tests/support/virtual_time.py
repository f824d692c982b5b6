"""An event loop whose time is virtual: when nobody is ready to run, it goes on to the next timer at once.

Everything that waits by the loop (sleep, timeout, wait_for) then takes no real time and happens in one fixed order, so
an hour of a poller's life is a few milliseconds of a test. Nothing may wait for another thread or process.
"""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import ParamSpec

P = ParamSpec("P")

START_S = 1000.0


class _Selector(selectors.SelectSelector):
    """Passes time instead of waiting."""

    now = START_S

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing is planned any more, and the test still waits")
            self.now += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def in_virtual_time(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an async test on such a loop."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
