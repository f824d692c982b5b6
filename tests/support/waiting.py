"""Waiting for a condition of the world outside the test."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, timeout_s: float, what: str, interval_s: float = 0.05) -> None:
    """Return as soon as the condition holds; raise TimeoutError, naming what was awaited, when it never does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(interval_s)
