"""Real parts a test needs: a visible skip where one is missing, a failure where all of them are required."""

import os
from typing import TypeVar

import pytest

Part = TypeVar("Part")


def require(part: str, found: Part | None, why: str) -> Part:
    """Return the part that was found; else skip the test, or fail it under SANDGAUGE_REQUIRE_REAL_PARTS=1."""
    if found is not None:
        return found
    message = f"{part} is missing: {why}"
    if os.environ.get("SANDGAUGE_REQUIRE_REAL_PARTS") == "1":
        pytest.fail(f"{message} (SANDGAUGE_REQUIRE_REAL_PARTS=1)")
    pytest.skip(message)
