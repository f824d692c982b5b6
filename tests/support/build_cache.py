"""What is built once and kept for the next test run, outside of version control."""

import contextlib
import fcntl
import hashlib
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
# The same place, moved by the same variable, as what collector-config/build.sh keeps.
CACHE = Path(os.environ.get("SANDGAUGE_CACHE") or REPOSITORY / "_build")


def fingerprint(parts: Iterable[bytes]) -> str:
    """A short name for what is built from the given parts; another build as soon as one of them changes."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def building(name: str) -> Iterator[Path]:
    """Hold the lock on one entry of the cache, so that two test runs never build it at the same time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with _without_time_limit(), (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield CACHE / name


@contextlib.contextmanager
def _without_time_limit() -> Iterator[None]:
    """Let the alarm of a test's time limit stand still: which test builds, and which waits for it, is chance."""
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)
