"""The form of an HTTP answer without its values: what two servers that behave alike have in common."""

import json
from dataclasses import dataclass
from typing import Any

import requests

_TELLING = frozenset({"code", "state", "reason", "type", "loc", "version", "image", "hasNextPage"})
"""JSON keys whose values are a closed vocabulary, and so part of the form."""

_TELLING_LINES = ("Status:", "Running:", "Paused:", "OOMKilled:", "Exit Code:")
"""Lines of an inspect text whose values are words of the server, not of the sandbox."""


@dataclass(frozen=True)
class Shape:
    """Status, content type, header names in lower case, and the form of the body; only a silence has no status."""

    status: int | None
    content_type: str | None = None
    headers: frozenset[str] = frozenset()
    body: Any = None


SILENCE = Shape(status=None, body="no answer in time")
"""The connection was accepted, and nothing came within the time allowed."""

BROKEN = Shape(status=None, body="no connection")
"""Nobody listens, or the connection closed before an answer."""


def shape_of(answer: requests.Response) -> Shape:
    """Return the form of an answer."""
    content_type = answer.headers.get("Content-Type")
    return Shape(
        status=answer.status_code,
        content_type=content_type,
        headers=frozenset(name.lower() for name in answer.headers),
        body=_body(content_type or "", answer.text),
    )


def _body(content_type: str, text: str) -> Any:
    if content_type.startswith("application/json"):
        return _json(json.loads(text))
    if text.startswith("Container ID:"):
        return _inspect(text)
    return text if len(text.split()) <= 4 else "text"


def _json(value: Any, key: str = "") -> Any:
    if key in _TELLING:
        return value
    if key == "input":
        return type(value).__name__
    if isinstance(value, dict):
        return {name: _json(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_json(inner) for inner in value]
    # A daemon written in Go leaves the decimals of whole numbers out.
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _inspect(text: str) -> list[str]:
    """Keep of each line what stands before its value; of labels and variables, the sandbox's own, only the names."""
    lines = []
    for line in text.split("\n"):
        title, separator, _ = line.partition("=" if line.startswith("  ") and "=" in line else ":")
        title = title.split(" -> ")[0]
        whole = line.startswith(_TELLING_LINES) or line.startswith(("  CPU:", "  Memory:"))
        lines.append(line if whole else title + separator)
    return lines
