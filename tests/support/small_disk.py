"""A file system in memory that is soon full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.real_parts import require


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Mount one of 4 MiB, which only root may; options are those of `mount`."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(("size=4m", *options)), "tmpfs", str(folder)]
    done: bool | None = None
    if os.geteuid() == 0:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0 or None
    require("a file system in memory", done, "run as root, where mounting is allowed")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
