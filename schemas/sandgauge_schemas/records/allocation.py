"""What is in force: components, notes and placement."""

from dataclasses import dataclass
from typing import Self

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, text, texts
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records.keys import JoinKeys, ReadingStatus, indexed
from sandgauge_schemas.resources import SandboxResourceAmounts

_DESIGNATOR = names.NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_KIND.removesuffix(".kind")
_HOST = names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_KIND.removesuffix(".kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentAllocation:
    """What is in force for one container of a sandbox."""

    name: str
    requests: SandboxResourceAmounts = SandboxResourceAmounts()
    limits: SandboxResourceAmounts = SandboxResourceAmounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What the control plane says is in force: components in its own order, notes, placement."""

    components: tuple[ComponentAllocation, ...] = ()
    notes: tuple[str, ...] = ()
    designator: Identity | None = None
    host: Identity | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return `allocation.*`; without components there is no component count."""
        attributes: dict[str, AttributeValue] = {}
        if self.components:
            attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT] = len(self.components)
        for index, component in enumerate(self.components):
            attributes[names.allocation_component_name(index)] = component.name
            attributes |= component.requests.to_attributes(names.allocation_component_requests_prefix(index))
            attributes |= component.limits.to_attributes(names.allocation_component_limits_prefix(index))
        if self.notes:
            attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_NOTE] = self.notes
        return attributes | _identity(_DESIGNATOR, self.designator) | _identity(_HOST, self.host)

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read `allocation.*`."""
        components = []
        for index in range(indexed(attributes, names.NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT)):
            requests = names.allocation_component_requests_prefix(index)
            limits = names.allocation_component_limits_prefix(index)
            components.append(
                ComponentAllocation(
                    name=text(attributes, names.allocation_component_name(index)) or "",
                    requests=SandboxResourceAmounts.from_attributes(attributes, requests),
                    limits=SandboxResourceAmounts.from_attributes(attributes, limits),
                )
            )
        return cls(
            components=tuple(components),
            notes=texts(attributes, names.NEMO_GYM_SANDBOX_ALLOCATION_NOTE),
            designator=_read_identity(attributes, _DESIGNATOR),
            host=_read_identity(attributes, _HOST),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRecord:
    """`gym.sandbox.resource.allocation`: allocation and placement; placement also when quantities are unavailable."""

    keys: JoinKeys
    status: ReadingStatus
    allocation: Allocation = Allocation()

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes."""
        return self.keys.to_attributes() | self.status.to_attributes() | self.allocation.to_attributes()

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read an allocation span's attributes."""
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            status=ReadingStatus.from_attributes(attributes),
            allocation=Allocation.from_attributes(attributes),
        )


def _identity(prefix: str, identity: Identity | None) -> dict[str, AttributeValue]:
    if identity is None:
        return {}
    return {f"{prefix}.kind": identity.kind, f"{prefix}.scope": identity.scope, f"{prefix}.id": identity.id}


def _read_identity(attributes: Attributes, prefix: str) -> Identity | None:
    kind, scope, id_ = (text(attributes, f"{prefix}.{part}") for part in ("kind", "scope", "id"))
    return Identity(kind, scope, id_) if kind and scope and id_ else None
