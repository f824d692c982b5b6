"""Instruments NeMo Gym where nobody calls for it: the last line of a user's work, after installing `sandgauge[gym]`.

`sandgauge.pth` calls `register` at the start of every interpreter whose environment names Gym's telemetry. So this
imports next to nothing, and whatever goes wrong in here, Gym is imported as if it were not there.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

_SANDBOX = "nemo_gym.sandbox"


def register() -> None:
    """Have Gym instrumented as soon as it imports its sandboxes, if it ever does. A second call changes nothing."""
    # A virtual environment runs the line twice.
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def unregister() -> None:
    """Leave Gym to itself in this process; somebody may still instrument it."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]


class _Finder:
    """Finds nothing, but sees Gym's import coming."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        """Instrument before Gym's package is found; the instrumentation then wraps how it is loaded."""
        if name != _SANDBOX or path is None:
            return None
        with suppress(Exception):
            sys.meta_path.remove(self)
            _instrument()
        return find_spec(name)


def _instrument() -> None:
    from sandgauge_emitter.faults import FAULTS, warn  # noqa: PLC0415  # only a process of Gym has a use for it

    with FAULTS.guard("autoload"):
        try:
            from sandgauge_emitter.gym import GymSandboxInstrumentor  # noqa: PLC0415  # as above
        except ImportError:
            warn("Sandbox telemetry is off: a package is missing; pip install 'sandgauge[gym]'")
            return
        instrumentor = GymSandboxInstrumentor()
        if not instrumentor.is_instrumented_by_opentelemetry:
            instrumentor.instrument()
