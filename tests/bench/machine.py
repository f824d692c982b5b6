"""What the figures were measured on: facts that let others compare, and nothing that tells whose machine it is."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandgauge_schemas.version import __version__

_MODEL = re.compile(r"^model name\s*: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine and what ran on it."""

    cores: int
    cpu: str
    memory_gib: int
    python: str
    sandgauge: str

    @classmethod
    def this(cls) -> "Machine":
        """Return this one."""
        model = _MODEL.search(Path("/proc/cpuinfo").read_text())
        return cls(
            cores=len(os.sched_getaffinity(0)),
            cpu=model[1] if model else platform.machine(),
            memory_gib=round(psutil.virtual_memory().total / 2**30),
            python=platform.python_version(),
            sandgauge=__version__,
        )
