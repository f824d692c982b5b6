"""Load the telemetry registry: semantic-convention YAML in, resolved records out.

The generator and the conformance check of the tests read the contract through this module; nothing that is installed
imports it. Beside weaver's own keys it reads these annotations:

- `enum`, `members`: the Python enum of an attribute, and its values where the attribute's type cannot hold them
  (lists, and labels whose values differ from metric to metric); `extends` adds the members of another enum.
- `values`: the values that one span or metric allows of a wider enum.
- `suffixes`: the exact keys behind an indexed prefix `<prefix>.<i>.`, with their types.
- `required_when`, `only_when`: values of other attributes on which presence depends.
- `whole_or_absent`: attributes that come together or not at all.
- `vocabularies`, `families`: word lists that end keys, and the prefixes that they follow.
- `service_name`: the value of `service.name` of an entity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REGISTRY_DIRECTORY = Path(__file__).parent / "registry"


class RegistryError(ValueError):
    """The registry contradicts itself; the message names the group and the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One value of an enum."""

    id: str
    value: str
    brief: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    """A closed list of values and the name of its Python class."""

    name: str
    brief: str
    members: tuple[Member, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The values in the order of the registry."""
        return tuple(member.value for member in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """A registered attribute. `type` is weaver's name of the type; enums are `string`."""

    name: str
    type: str
    brief: str
    note: str = ""
    examples: tuple[Any, ...] = ()
    enum: str | None = None
    values: tuple[str, ...] | None = None
    suffixes: Mapping[str, str] = field(default_factory=dict)


Conditions = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """An attribute as one span, metric or entity carries it."""

    attribute: Attribute
    brief: str
    required: bool = False
    condition: str | None = None
    enum: str | None = None
    values: tuple[str, ...] | None = None
    required_when: Conditions = field(default_factory=dict)
    only_when: Conditions = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanGroup:
    """A span by name and what it may carry."""

    name: str
    kind: str
    brief: str
    usages: tuple[Usage, ...]
    whole_or_absent: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGroup:
    """A metric by name, with weaver's instrument name and its UCUM unit."""

    name: str
    instrument: str
    unit: str
    brief: str
    usages: tuple[Usage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The whole contract, every reference resolved."""

    attributes: Mapping[str, Attribute]
    enums: Mapping[str, Enumeration]
    vocabularies: Mapping[str, Enumeration]
    families: Mapping[str, tuple[str, ...]]
    spans: Mapping[str, SpanGroup]
    metrics: Mapping[str, MetricGroup]
    entities: Mapping[str, tuple[Usage, ...]]
    service_names: Mapping[str, str]


def read_groups(directory: Path = REGISTRY_DIRECTORY) -> list[dict[str, Any]]:
    """Return every group of the registry as parsed, in the order of file names."""
    groups: list[dict[str, Any]] = []
    for path in sorted(directory.glob("*.yaml")):
        groups.extend(yaml.safe_load(path.read_text(encoding="utf-8")).get("groups", []))
    return groups


def load_registry(directory: Path = REGISTRY_DIRECTORY) -> Registry:
    """Resolve references, extensions and enums. Raises RegistryError where they contradict each other."""
    return _Resolver(read_groups(directory)).resolve()


class _Resolver:
    """One pass for definitions and enums, a second for what refers to them."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self._groups = {group["id"]: group for group in groups}
        if len(self._groups) != len(groups):
            raise RegistryError("two groups share an id")
        self._enums: dict[str, Enumeration] = {}
        self._attributes: dict[str, Attribute] = {}

    def resolve(self) -> Registry:
        nodes = [(group["id"], node) for group in self._groups.values() for node in group.get("attributes", [])]
        for group_id, node in nodes:
            self._collect_enum(group_id, node)
        for group_id, node in nodes:
            if "id" in node:
                self._define(group_id, node)
        annotated = [group.get("annotations", {}) for group in self._groups.values()]
        return Registry(
            attributes=self._attributes,
            enums=self._enums,
            vocabularies={
                name: _vocabulary(name, body)
                for annotations in annotated
                for name, body in annotations.get("vocabularies", {}).items()
            },
            families={
                name: tuple(prefixes)
                for annotations in annotated
                for name, prefixes in annotations.get("families", {}).items()
            },
            spans={span.name: span for span in map(self._span, self._of_type("span"))},
            metrics={metric.name: metric for metric in map(self._metric, self._of_type("metric"))},
            entities={group["name"]: self._usages(group) for group in self._of_type("entity")},
            service_names={
                group["name"]: group["annotations"]["service_name"]
                for group in self._of_type("entity")
                if "service_name" in group.get("annotations", {})
            },
        )

    def _of_type(self, group_type: str) -> Iterator[dict[str, Any]]:
        return (group for group in self._groups.values() if group["type"] == group_type)

    def _collect_enum(self, group_id: str, node: dict[str, Any]) -> None:
        annotations = node.get("annotations", {})
        members = _members_of(node)
        if members is None:
            return
        if "enum" not in annotations:
            raise RegistryError(f"{group_id}: {_key(node)} has members and no enum annotation")
        name = annotations["enum"]
        base = self._enums[annotations["extends"]].members if "extends" in annotations else ()
        enum = Enumeration(name=name, brief=annotations.get("brief", node.get("brief", "")), members=(*members, *base))
        known = self._enums.setdefault(name, enum)
        if known.members != enum.members:
            raise RegistryError(f"{group_id}: {_key(node)} gives the enum {name} other members than before")

    def _define(self, group_id: str, node: dict[str, Any]) -> None:
        name = node["id"]
        if name in self._attributes:
            raise RegistryError(f"{group_id}: {name} is defined twice")
        annotations = node.get("annotations", {})
        enum = annotations.get("enum")
        self._attributes[name] = Attribute(
            name=name,
            type=node["type"] if isinstance(node["type"], str) else "string",
            brief=node["brief"],
            note=node.get("note", ""),
            examples=tuple(node.get("examples", ())),
            enum=enum,
            values=self._values(annotations, enum),
            suffixes=annotations.get("suffixes", {}),
        )

    def _values(self, annotations: dict[str, Any], enum: str | None) -> tuple[str, ...] | None:
        if "values" in annotations:
            return tuple(annotations["values"])
        return self._enums[enum].values if enum else None

    def _span(self, group: dict[str, Any]) -> SpanGroup:
        return SpanGroup(
            name=group["id"].removeprefix("span."),
            kind=group["span_kind"],
            brief=group["brief"],
            usages=self._usages(group),
            whole_or_absent=tuple(map(tuple, group.get("annotations", {}).get("whole_or_absent", ()))),
        )

    def _metric(self, group: dict[str, Any]) -> MetricGroup:
        return MetricGroup(
            name=group["metric_name"],
            instrument=group["instrument"],
            unit=group["unit"],
            brief=group["brief"],
            usages=self._usages(group),
        )

    def _usages(self, group: dict[str, Any]) -> tuple[Usage, ...]:
        usages: dict[str, Usage] = {}
        for node in group.get("attributes", []):
            usages[_key(node)] = self._usage(group["id"], node)
        if "extends" in group:
            for usage in self._usages(self._groups[group["extends"]]):
                usages.setdefault(usage.attribute.name, usage)
        return tuple(usages.values())

    def _usage(self, group_id: str, node: dict[str, Any]) -> Usage:
        attribute = self._attributes.get(_key(node))
        if attribute is None:
            raise RegistryError(f"{group_id}: {_key(node)} is defined nowhere")
        annotations = node.get("annotations", {})
        level = node.get("requirement_level", "recommended")
        enum = annotations.get("enum", attribute.enum)
        own_values = annotations.keys() & {"enum", "values"}
        return Usage(
            attribute=attribute,
            brief=node.get("brief", attribute.brief),
            required=level == "required",
            condition=level.get("conditionally_required") if isinstance(level, dict) else None,
            enum=enum,
            values=self._values(annotations, enum) if own_values else attribute.values,
            required_when=_conditions(annotations.get("required_when", {})),
            only_when=_conditions(annotations.get("only_when", {})),
        )


def _key(node: dict[str, Any]) -> str:
    return str(node["id"] if "id" in node else node["ref"])


def _members_of(node: dict[str, Any]) -> tuple[Member, ...] | None:
    listed = (
        node["type"]["members"] if isinstance(node.get("type"), dict) else node.get("annotations", {}).get("members")
    )
    if listed is None:
        return None
    return tuple(Member(id=item["id"], value=item["value"], brief=item["brief"]) for item in listed)


def _conditions(raw: dict[str, list[str]]) -> Conditions:
    return {key: tuple(values) for key, values in raw.items()}


def _vocabulary(name: str, body: dict[str, Any]) -> Enumeration:
    members = tuple(Member(id=word, value=word, brief=brief) for word, brief in body["members"].items())
    return Enumeration(name=name, brief=body["brief"], members=members)
