"""Bodies of answers."""

import json
from typing import Any


def parse_object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body, or None where it holds none."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None
