"""What a test does when a real part is not on this machine: a visible skip, or a failure where all are required."""

import os
from typing import TypeVar

import pytest

Part = TypeVar("Part")


def require(part: str, found: Part | None, why: str) -> Part:
    """Return `found`; without it skip the test, or fail it when `SANDGAUGE_REQUIRE_REAL_PARTS` is 1.

    `part` names what is missing and `why` says how to get it; both end up in the report.
    """
    if found is not None:
        return found
    message = f"{part} not found: {why}"
    if os.environ.get("SANDGAUGE_REQUIRE_REAL_PARTS") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
