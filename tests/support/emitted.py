"""What an emitted span holds, by the parts of its keys."""

from typing import Any

from sandgauge_schemas import names
from support.otlp_proto import SeenSpan


def only(spans: list[SeenSpan]) -> SeenSpan:
    (span,) = spans
    return span


def resource_keys(span: SeenSpan, prefix: str) -> dict[str, Any]:
    """Return what stands below a prefix, without it."""
    return {key.removeprefix(f"{prefix}."): value for key, value in span.attributes.items() if key.startswith(prefix)}


def requested(span: SeenSpan) -> dict[str, Any]:
    """Return the shape that a request for one sandbox declares."""
    keys = resource_keys(span, names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED)
    assert keys.pop("count") == 1
    return keys
