"""Render the registry as a reference page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from telemetry_registry import Attribute, Enumeration, MetricGroup, Registry, SpanGroup, Usage

_INTRODUCTION = """# Telemetry reference

<!-- Generated from schemas/registry by schemas/generate.py; do not edit. -->

Every span, metric and attribute that Sandgauge emits, reads or lets the Collector add. Four quantities stay apart:
*requested* is what the rollout declared, *submitted* what the provider client sent, *allocated* what the control
plane says is in force, *sampled* what a source read. None is ever filled in from another, and a missing one is an
absent key, never zero.
"""


def render_reference(registry: Registry) -> str:
    """Return the text of `docs/telemetry.md`."""
    sections = [
        _INTRODUCTION,
        "## Spans\n",
        *map(_span, registry.spans.values()),
        "## Metrics\n",
        *map(_metric, registry.metrics.values()),
        "## Examples and notes\n",
        _table(("attribute", "examples", "note"), _remarks(registry)),
        "## Indexed keys\n\n`<i>` counts from 0.\n",
        *(_indexed(attribute) for attribute in registry.attributes.values() if attribute.suffixes),
        "## Enumerations\n",
        *map(_enumeration, sorted(registry.enums.values(), key=lambda enum: enum.name)),
        "## Vocabularies\n",
        *map(_enumeration, registry.vocabularies.values()),
        "## Resource attributes\n",
        *(f"### {name}\n\n{_usage_table(usages)}" for name, usages in registry.entities.items()),
        "## Added by the Collector\n",
        _table(("attribute", "type", "meaning"), map(_attribute_row, _unused(registry))),
    ]
    return "\n".join(sections)


def _span(span: SpanGroup) -> str:
    return f"### `{span.name}`\n\n{span.brief} Kind {span.kind.upper()}.\n\n{_usage_table(span.usages)}"


def _metric(metric: MetricGroup) -> str:
    instrument = f"A {metric.instrument} in `{metric.unit}`."
    return f"### `{metric.name}`\n\n{metric.brief} {instrument}\n\n{_usage_table(metric.usages)}"


def _usage_table(usages: Iterable[Usage]) -> str:
    return _table(("attribute", "type", "required", "meaning"), map(_usage_row, usages))


def _usage_row(usage: Usage) -> tuple[str, ...]:
    required = "yes" if usage.required else f"if {usage.condition}" if usage.condition else ""
    kind = _type(usage.attribute, usage.enum if usage.values else None)
    narrowed = (
        usage.values is not None and usage.values != usage.attribute.values and usage.enum == usage.attribute.enum
    )
    only = f" Here only {_codes(usage.values or ())}." if narrowed else ""
    return (_key(usage.attribute), kind, required, usage.brief + only)


def _attribute_row(attribute: Attribute) -> tuple[str, ...]:
    return (_key(attribute), _type(attribute, attribute.enum), attribute.brief)


def _key(attribute: Attribute) -> str:
    return f"`{attribute.name}.<i>.…`" if attribute.suffixes else f"`{attribute.name}`"


def _type(attribute: Attribute, enum: str | None) -> str:
    if attribute.suffixes:
        return "[indexed](#indexed-keys)"
    return f"{attribute.type}, [{enum}](#{enum.lower()})" if enum else attribute.type


def _remarks(registry: Registry) -> Iterator[tuple[str, ...]]:
    for attribute in registry.attributes.values():
        shown = () if attribute.enum or attribute.suffixes else attribute.examples
        if attribute.note or shown:
            yield (_key(attribute), _codes(map(str, shown)), attribute.note)


def _indexed(attribute: Attribute) -> str:
    rows = ((f"`{attribute.name}.<i>.{suffix}`", kind) for suffix, kind in attribute.suffixes.items())
    return f"### `{attribute.name}`\n\n{attribute.brief}\n\n{_table(('key', 'type'), rows)}"


def _enumeration(enum: Enumeration) -> str:
    rows = ((f"`{member.value}`", member.brief) for member in enum.members)
    return f"### {enum.name}\n\n{enum.brief}\n\n{_table(('value', 'meaning'), rows)}"


def _unused(registry: Registry) -> Iterator[Attribute]:
    groups = [*registry.spans.values(), *registry.metrics.values()]
    used = {usage.attribute.name for group in groups for usage in group.usages}
    used |= {usage.attribute.name for usages in registry.entities.values() for usage in usages}
    return (attribute for attribute in registry.attributes.values() if attribute.name not in used)


def _codes(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
