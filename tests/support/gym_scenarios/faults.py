"""Scenarios with a telemetry layer that fails once: at its first call, then at its second, and so on to the last.

Every call of Python code from the emitter into OpenTelemetry and the network counts. Prints how many there were, and a
line for each after which a caller saw anything else than without the failure.
"""

import asyncio
import json
import sys
from types import FrameType
from typing import Any, Self

from sandgauge_emitter.tracing import TRACING
from support.gym_scenarios.run import SCENARIOS
from support.span_trees import masked

_LAYERS = ("opentelemetry", "asyncio", "urllib", "ssl")
# Leaving a timeout is the standard library's own affair: if that failed, it would cancel its caller later on.
_LEFT_OUT = ("asyncio.timeouts", "asyncio.coroutines")
_EMITTER = "sandgauge_emitter"


class InjectedError(Exception):
    """The failure."""


class FailingLayer:
    """Counts the calls into the layer while its context is open, and fails at one of them."""

    def __init__(self, fails_at: int | None) -> None:
        self.calls = 0
        self._fails_at = fails_at

    def __enter__(self) -> Self:
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or frame.f_back is None:
            return
        callee, caller = (str(one.f_globals.get("__name__")) for one in (frame, frame.f_back))
        if not caller.startswith(_EMITTER) or not callee.startswith(_LAYERS) or callee in _LEFT_OUT:
            return
        self.calls += 1
        if self.calls == self._fails_at:
            raise InjectedError(callee)


def main(*names: str) -> None:
    """Run the scenarios as often as there are calls."""
    _run(names, FailingLayer(None))  # what is imported late is there from now on
    whole = FailingLayer(None)
    expected = _run(names, whole)
    print(json.dumps({"calls": whole.calls}))
    for fails_at in range(1, whole.calls + 1):
        failing = FailingLayer(fails_at)
        seen = _run(names, failing)
        if seen != expected or failing.calls < fails_at:
            print(json.dumps({"fails_at": fails_at, "calls": failing.calls, "seen": seen, "expected": expected}))


def _run(names: tuple[str, ...], layer: FailingLayer) -> Any:
    TRACING.close()
    TRACING._begin()  # the next failure may hit the set-up too
    with layer:
        seen = {name: asyncio.run(SCENARIOS[name]()) for name in names}
    return json.loads(masked(json.dumps(seen)))
