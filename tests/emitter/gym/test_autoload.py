"""The line that every interpreter of an environment runs: light, silent, and harmless to Gym."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.plain_provider import ON

EMITTER = Path(__file__).parents[3] / "emitter"
STAND_IN = Path(__file__).parent / "stand_in"
LINE = (EMITTER / "sandgauge.pth").read_text().strip()
STATE = "import sys; print('sandgauge_autoload' in sys.modules, 'sandgauge_emitter' in sys.modules)"
WRAPPED = "import nemo_gym.sandbox as gym; print(type(vars(gym.AsyncSandbox)['start']).__name__)"


def python(program, **environment):
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "NEMO_", "SANDGAUGE_"))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "PYTHONPATH": str(STAND_IN), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.parametrize("variable", ["NEMO_GYM_OTEL_ENABLED", "NEMO_LENS_ENABLED", "NEMO_GYM_CONFIG_DICT"])
def test_an_interpreter_that_gym_might_run_in_waits_for_gym_and_loads_nothing(variable):
    assert python(STATE, **{variable: "1"}) == ("True False", "")


def test_any_other_interpreter_loads_nothing_at_all():
    assert python(STATE) == ("False False", "")


def test_gym_is_wrapped_as_it_is_imported_and_its_loader_is_its_own():
    assert python(WRAPPED, **ON) == ("FunctionWrapper", "")
    assert python("import nemo_gym.sandbox as g; print(g.__loader__.name, g.__spec__.name)", **ON) == (
        "nemo_gym.sandbox nemo_gym.sandbox",
        "",
    )


def test_gym_is_not_imported_for_it():
    assert python("import sys; print([name for name in sys.modules if 'nemo' in name])", **ON) == ("[]", "")


OPTED_OUT = "from sandgauge_emitter.gym import GymSandboxInstrumentor as G; "


@pytest.mark.parametrize(
    ("calls", "is_wrapped"),
    [
        ("G().uninstrument(); ", False),
        ("G().instrument(); G().uninstrument(); ", False),
        ("G().uninstrument(); G().instrument(); ", True),
    ],
)
def test_who_takes_it_off_before_gym_is_imported_keeps_it_off(calls, is_wrapped):
    out, _ = python(OPTED_OUT + calls + WRAPPED, **ON)
    assert out == ("FunctionWrapper" if is_wrapped else "function")


FIRST_START = """
import asyncio, os, sys
import nemo_gym.sandbox as gym

class Provider:
    async def create(self, spec):
        return self

class Spec:
    resources = {}

before = set(sys.modules)
asyncio.run(gym.AsyncSandbox(Provider(), Spec).start())
print({"opentelemetry.sdk.trace", "requests"} <= before, sorted(set(sys.modules) - before))
sys.stdout.flush()
os._exit(0)
"""


def test_the_first_sandbox_loads_nothing_for_which_an_event_loop_would_wait():
    assert python(FIRST_START, **ON) == ("True []", "")


def test_gym_without_telemetry_is_left_alone():
    assert python(WRAPPED, NEMO_GYM_OTEL_ENABLED="0") == ("function", "")


BROKEN = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {missing!r}:
            raise {error}
sys.meta_path.insert(0, Missing())
"""


@pytest.mark.parametrize("missing", ["wrapt", "opentelemetry.instrumentation", "sandgauge_emitter.gym"])
def test_a_missing_package_is_one_line_with_its_cure(missing):
    error = f"ModuleNotFoundError({missing!r}, name={missing!r})"
    out, err = python(BROKEN.format(missing=(missing,), error=error) + WRAPPED, **ON)
    assert out == "function"
    (line,) = err.splitlines()
    assert "pip install 'sandgauge[gym]'" in line


@pytest.mark.parametrize("broken", ["sandgauge_emitter", "sandgauge_emitter.faults", "sandgauge_emitter.gym.switches"])
def test_a_broken_emitter_breaks_no_import(broken):
    out, err = python(BROKEN.format(missing=(broken,), error="RuntimeError('pa55')") + WRAPPED, **ON)
    assert out == "function"
    assert "pa55" not in err
    assert len(err.splitlines()) <= 1


@pytest.mark.parametrize("name", ["nemo_gym", "nemo_gym.sandbox.nothing", "nemo_gym_other"])
def test_other_imports_are_none_of_its_business(name):
    program = f"import importlib.util; found = importlib.util.find_spec({name!r}); print(found and found.name)"
    assert python(program, **ON) == python(program)


SITE = "import site, sys; site.addsitedir({folder!r}); print('sandgauge_autoload' in sys.modules)"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_line_that_outlives_its_module_says_nothing(tmp_path, is_there):
    for name in ("sandgauge.pth", *(["sandgauge_autoload.py"] if is_there else [])):
        (tmp_path / name).write_text((EMITTER / name).read_text())
    # Without the site packages of the tests, which hold the module.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", SITE.format(folder=str(tmp_path))],
        env={"NEMO_GYM_OTEL_ENABLED": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == (str(is_there), "")


def test_the_line_is_one_statement_that_site_runs():
    assert LINE.startswith("import ")
    assert "\n" not in LINE
