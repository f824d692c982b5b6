"""Render the registry as the Python module of names."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from telemetry_registry import Attribute, Enumeration, Registry

_HEADER = '''"""Every telemetry name, once. Generated from schemas/registry by schemas/generate.py; do not edit."""

from enum import StrEnum
'''
_LINE_LENGTH = 120
_INDEX_HELPER_ROOT = "nemo.gym.sandbox."


def render_names(registry: Registry) -> str:
    """Return the source of `sandgauge_schemas/names.py`: formatted, typed, importing the standard library alone."""
    plain = [attribute for attribute in registry.attributes.values() if not attribute.suffixes]
    indexed = [attribute for attribute in registry.attributes.values() if attribute.suffixes]
    prefixes = sorted(prefix for family in registry.families.values() for prefix in family)
    sections = [
        _constants("Attributes", "", sorted(attribute.name for attribute in plain)),
        _constants("Prefixes of families: each is followed by a dot and a word of its vocabulary", "PREFIX_", prefixes),
        _constants("Spans", "SPAN_", sorted(registry.spans)),
        _constants("Metrics", "METRIC_", sorted(registry.metrics)),
        _units(registry),
        _service_names(registry),
    ]
    classes = [*registry.vocabularies.values(), *registry.enums.values()]
    blocks = [_enum(enum) for enum in sorted(classes, key=lambda enum: enum.name)]
    for attribute in indexed:
        blocks.extend(_index_helpers(attribute, registry.vocabularies["Resource"]))
    return _HEADER + "\n" + "\n".join(sections) + "\n\n" + "\n\n".join(blocks)


def constant(name: str) -> str:
    """Return the constant's spelling of a telemetry name."""
    return name.upper().replace(".", "_")


def _constants(title: str, marker: str, names: Iterable[str]) -> str:
    lines = [f'{marker}{constant(name)} = "{name}"' for name in names]
    return "\n".join([f"# {title}", *lines, ""])


def _units(registry: Registry) -> str:
    lines = [f'    METRIC_{constant(name)}: "{registry.metrics[name].unit}",' for name in sorted(registry.metrics)]
    return "\n".join(["# UCUM unit of each metric", "METRIC_UNITS = {", *lines, "}", ""])


def _service_names(registry: Registry) -> str:
    names = sorted(registry.service_names.items())
    lines = [f'{constant(entity)}_SERVICE_NAME = "{value}"' for entity, value in names]
    return "\n".join(["# Values of service.name", *lines, ""])


def _enum(enum: Enumeration) -> str:
    members = [f'    {member.id.upper()} = "{member.value}"' for member in enum.members]
    return "\n".join([f"class {enum.name}(StrEnum):", _docstring(enum.brief), "", *members, ""])


def _docstring(text: str) -> str:
    """Return one indented docstring: a summary line, and the rest of the text below it."""
    summary, _, rest = " ".join(text.split()).partition(". ")
    summary = summary.rstrip(".") + "."
    if not rest:
        return f'    """{summary}"""'
    body = textwrap.fill(rest, _LINE_LENGTH - 4, initial_indent="    ", subsequent_indent="    ")
    return f'    """{summary}\n\n{body}\n    """'


def _index_helpers(attribute: Attribute, resource: Enumeration) -> Iterator[str]:
    """Yield one function for each key that is no resource, and one prefix function for each resource family."""
    stem = attribute.name.removeprefix(_INDEX_HELPER_ROOT).replace(".", "_")
    families = {suffix.rpartition(".")[0] for suffix in attribute.suffixes if _ends_in(suffix, resource)}
    for suffix in (suffix for suffix in attribute.suffixes if not _ends_in(suffix, resource)):
        yield _helper(f"{stem}_{suffix.replace('.', '_')}", f"{attribute.name}.{{index}}.{suffix}", "Return the key")
    for family in sorted(families, reverse=True):
        name = "_".join(part for part in (stem, family.replace(".", "_"), "prefix") if part)
        key = f"{attribute.name}.{{index}}" + (f".{family}" if family else "")
        yield _helper(name, key, "Return the prefix of the resource keys")


def _ends_in(suffix: str, vocabulary: Enumeration) -> bool:
    return suffix.rpartition(".")[2] in vocabulary.values


def _helper(function: str, key: str, doing: str) -> str:
    shape = key.replace("{index}", "<index>")
    return f'def {function}(index: int) -> str:\n    """{doing} `{shape}`."""\n    return f"{key}"\n'
