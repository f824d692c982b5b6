"""Spans as what they mean: without times and generated ids, each below its parent, so that two runs can be compared."""

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Self

from support.otlp_json import plain

_GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
_UNSET: dict[str, Any] = {}


@dataclass(frozen=True, order=True)
class SpanTree:
    """A span and all below it, attributes and children sorted. Values are as OTLP/JSON writes them, texts masked.

    `status` is code and message, `exceptions` the type and message of each event.
    """

    name: str
    attributes: tuple[tuple[str, Any], ...] = ()
    children: tuple[Self, ...] = ()
    scope: str = "nemo.lens.helpers"
    kind: int = 1
    status: tuple[int, str] = (0, "")
    exceptions: tuple[tuple[str, str], ...] = ()


def masked(text: str) -> str:
    """Put `*` for every UUID and every run of 32 hexadecimal digits: generated ids."""
    return _GENERATED.sub("*", text)


def span_trees(request: dict[str, Any]) -> list[SpanTree]:
    """Return the trees of an OTLP/JSON request, sorted; AssertionError for a span whose parent is not in it."""
    below: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for resource in request.get("resourceSpans", []):
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                below[span.get("parentSpanId", "")].append((scope["scope"]["name"], span))
    trees = _trees(below, "")
    assert not below, f"parents that are not there: {sorted(below)}"
    return trees


def _trees(below: dict[str, list[tuple[str, dict[str, Any]]]], parent: str) -> list[SpanTree]:
    return sorted(
        SpanTree(
            name=span["name"],
            attributes=tuple(sorted((key, _value(value)) for key, value in plain(span.get("attributes", [])).items())),
            children=tuple(_trees(below, span["spanId"])),
            scope=scope,
            kind=span["kind"],
            status=(span.get("status", _UNSET).get("code", 0), masked(span.get("status", _UNSET).get("message", ""))),
            exceptions=tuple(_exception(event) for event in span.get("events", [])),
        )
        for scope, span in below.pop(parent, [])
    )


def _exception(event: dict[str, Any]) -> tuple[str, str]:
    described = plain(event["attributes"])
    return described["exception.type"], masked(described.get("exception.message", ""))


def _value(value: Any) -> Any:
    return masked(value) if isinstance(value, str) else value
