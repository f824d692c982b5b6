"""A process into which a stand-in of NeMo Gym can be imported anew, as often as a test likes."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandgauge_emitter.gym import GymSandboxInstrumentor
from support.plain_provider import ON


@pytest.fixture
def stand_in(monkeypatch):
    """Make the stand-in importable; it is not imported yet, and forgotten afterwards."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "stand_in"))
    yield
    if GymSandboxInstrumentor().is_instrumented_by_opentelemetry:
        GymSandboxInstrumentor().uninstrument()
    for name in [name for name in sys.modules if name.partition(".")[0] == "nemo_gym"]:
        del sys.modules[name]


@pytest.fixture
def switched_on(monkeypatch):
    for name, text in ON.items():
        monkeypatch.setenv(name, text)


@pytest.fixture
def gym(stand_in, switched_on, host):
    """The stand-in, instrumented, in a host with an SDK."""
    GymSandboxInstrumentor().instrument()
    modules = {
        "api": "nemo_gym.sandbox.api",
        "registry": "nemo_gym.sandbox.providers.registry",
        "compose": "nemo_gym.sandbox.adapters.docker_compose",
    }
    return SimpleNamespace(**{short: importlib.import_module(name) for short, name in modules.items()})
