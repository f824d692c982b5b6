"""Prometheus' own tool for rules and expressions, of a newer Debian than this machine's."""

import subprocess
from pathlib import Path

from support.debian_packages import unpacked

SUITE = "forky"


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of promtool that may fail."""
    program = unpacked(SUITE, ["promtool"]) / "usr" / "bin" / "promtool"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
