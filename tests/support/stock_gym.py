"""Stock NeMo Gym with its OpenSandbox client, from the package index, in virtual environments of their own.

Gym's own dependencies (Ray, training frameworks) are left out: sandboxes and telemetry need few of them. Gym asks for a
newer patch release of Python than the tests have; the parts that are used here do not.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.build_cache import REPOSITORY, building, fingerprint
from support.real_parts import require

PYTHONS = ("3.13", "3.12")

_STOCK = REPOSITORY / "constraints" / "stock-gym.txt"
_RUNTIME = REPOSITORY / "constraints" / "stock-gym-runtime.txt"
# What an editable install copies: metadata with entry points, and the line that every interpreter runs.
_DISTRIBUTION = (
    REPOSITORY / "pyproject.toml",
    REPOSITORY / "schemas" / "sandgauge_schemas" / "version.py",
    REPOSITORY / "emitter" / "sandgauge.pth",
)
# Tasks and agents of Gym, 140 MB that nothing here runs.
_UNUSED = (
    "benchmarks",
    "environment_servers",
    "environments",
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
)
# Gym's rollout ids look for Ray's version, and for nothing else of it.
_RAY = "Metadata-Version: 2.1\nName: ray\nVersion: 2.58.0\n"
# Longer than any test of it may take: pytest tells which one hangs.
_TIMEOUT_S = 1200.0


@dataclass(frozen=True, slots=True)
class GymEnvironment:
    """A virtual environment with Gym and this checkout in it; nemo-lens is on its path or not."""

    folder: Path
    lens: bool

    def run(
        self,
        *arguments: str | Path,
        environment: Mapping[str, str] | None = None,
        auto_instrumented: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with the arguments and return what it printed; a failure of it raises, with its stderr in a note.

        Nothing of this process's environment is passed on but PATH. `auto_instrumented` starts Python through
        `opentelemetry-instrument`, which loads every installed instrumentor by its entry point.
        """
        command = [self.folder / "bin" / "python", *arguments]
        if auto_instrumented:
            command.insert(0, self.folder / "bin" / "opentelemetry-instrument")
        try:
            return subprocess.run(
                command,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": self.path(), **(environment or {})},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=True,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            error.add_note(str(error.stderr))
            raise

    def path(self) -> str:
        """Return the PYTHONPATH: `support` for the scenarios, and nemo-lens where it is wanted."""
        folders = [REPOSITORY / "tests", *([_lens_folder(self.folder)] if self.lens else [])]
        return os.pathsep.join(map(str, folders))


def stock_gym(python: str = "3.13", *, lens: bool = True) -> GymEnvironment:
    """Return the environment of a Python version, built once; skip the test where that Python is not to be found."""
    interpreter = require(f"Python {python}", _interpreter(python), f"install it with `pyenv install {python}`")
    # The checkout is part of it: an environment has one checkout in it, and the cache may be shared by several.
    parts = [_STOCK.read_bytes(), _RUNTIME.read_bytes(), str(interpreter).encode(), str(REPOSITORY).encode()]
    with building(f"stock-gym-{python}-{fingerprint(parts)}") as folder:
        complete = folder / ".complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install_gym(interpreter, folder)
            complete.touch()
        described = folder / f".described-{fingerprint(part.read_bytes() for part in _DISTRIBUTION)}"
        if not described.exists():
            _pip(folder, "install", "--no-deps", "--no-build-isolation", "--editable", REPOSITORY)
            described.touch()
    return GymEnvironment(folder, lens)


def _install_gym(interpreter: Path, folder: Path) -> None:
    subprocess.run((interpreter, "-m", "venv", "--without-pip", folder), check=True)
    _pip(folder, "install", "--require-hashes", "--no-deps", "--ignore-requires-python", "-r", _STOCK)
    _pip(folder, "install", "--require-hashes", "--no-deps", "-r", _RUNTIME)
    [packages] = folder.glob("lib/python*/site-packages")
    for unused in _UNUSED:
        shutil.rmtree(packages / unused)
    ray = packages / "ray-2.58.0.dist-info"
    ray.mkdir()
    (ray / "METADATA").write_text(_RAY)
    _lens_folder(folder).mkdir()
    for part in ("nemo", *(found.name for found in packages.glob("nemo_lens-*.dist-info"))):
        (packages / part).rename(_lens_folder(folder) / part)


def _lens_folder(folder: Path) -> Path:
    return folder / "nemo-lens"


def _pip(folder: Path, *arguments: str | Path) -> None:
    """Run the tests' own pip on the environment, which then needs none."""
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--quiet", "--disable-pip-version-check")
    subprocess.run((*pip, *arguments), check=True)


def _interpreter(version: str) -> Path | None:
    """Find a Python by pyenv, the newest patch release of it, or else on the PATH."""
    if shutil.which("pyenv") is None:
        on_path = shutil.which(f"python{version}")
        return Path(on_path) if on_path else None
    latest = _output("pyenv", "latest", version)
    prefix = latest and _output("pyenv", "prefix", latest)
    return Path(prefix) / "bin" / "python" if prefix else None


def _output(*command: str) -> str | None:
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None
