"""The OTLP exporter that speaks gRPC, in a folder of its own: a Gym with its own telemetry has it, others have not."""

import shutil
import subprocess
import sys
from pathlib import Path

from support.build_cache import REPOSITORY, building, fingerprint
from support.stock_gym import GymEnvironment

_PINS = REPOSITORY / "constraints" / "grpc-exporter.txt"


def grpc_exporter(gym: GymEnvironment) -> Path:
    """Return a folder for the PYTHONPATH of Gym's environment, made once."""
    with building(f"grpc-exporter-{fingerprint([_PINS.read_bytes(), str(gym.folder).encode()])}") as folder:
        complete = folder / ".complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            pip = (sys.executable, "-m", "pip", "--python", str(gym.folder / "bin" / "python"), "--quiet")
            install = ("install", "--disable-pip-version-check", "--require-hashes", "--no-deps", "-r", str(_PINS))
            subprocess.run((*pip, *install, "--target", str(folder)), check=True)
            complete.touch()
    return folder
