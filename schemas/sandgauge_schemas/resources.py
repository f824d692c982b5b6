"""The one resource vocabulary: amounts as observed, and the whole-number shape of a creation request."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self, TypeVar

from sandgauge_schemas.attributes import Attributes, AttributeValue, number, text, whole
from sandgauge_schemas.names import Resource

RESOURCE_KEYS = tuple(Resource)
"""Key suffixes, in the contract's order."""

LARGEST_AMOUNT = 2**63 - 1
"""OTLP's whole numbers have 64 bits; nothing real comes near."""


@cache
def resource_keys(prefix: str) -> tuple[str, ...]:
    """Return `<prefix>.<resource>` for each resource, in the contract's order; prefixes are the contract's own."""
    return tuple(f"{prefix}.{key}" for key in RESOURCE_KEYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResourceAmounts:
    """Amounts of one side of one component; what is not known is None, never zero.

    `cpu` in cores, `memory_mib` in MiB and `disk_gib` in GiB (fractions kept), `gpu` a count of whole devices,
    `gpu_type` a selector.
    """

    _doubles: ClassVar[frozenset[Resource]] = frozenset({Resource.CPU, Resource.MEMORY_MIB, Resource.DISK_GIB})
    """Amounts that may have a fraction, and so are doubles on the wire."""

    cpu: float | None = None
    memory_mib: float | None = None
    disk_gib: float | None = None
    gpu: int | None = None
    gpu_type: str | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, key) is not None for key in RESOURCE_KEYS)

    def to_attributes(self, prefix: str) -> dict[str, AttributeValue]:
        """Return `<prefix>.<resource>` for each amount that is known."""
        attributes: dict[str, AttributeValue] = {}
        for key in RESOURCE_KEYS:
            value = getattr(self, key)
            if value is not None:
                attributes[f"{prefix}.{key}"] = float(value) if key in self._doubles else value
        return attributes

    @classmethod
    def from_attributes(cls, attributes: Attributes, prefix: str) -> Self:
        """Read `<prefix>.<resource>`; an amount below 0, beyond LARGEST_AMOUNT or of the wrong type is absent."""
        cpu, memory_mib, disk_gib, gpu, gpu_type = resource_keys(prefix)
        return cls(
            cpu=_possible(number(attributes, cpu)),
            memory_mib=_possible(number(attributes, memory_mib)),
            disk_gib=_possible(number(attributes, disk_gib)),
            gpu=_possible(whole(attributes, gpu)),
            gpu_type=text(attributes, gpu_type),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResources(SandboxResourceAmounts):
    """The shape that a creation request declares: memory in whole MiB, disk in whole GiB.

    Raises TypeError for a value of the wrong type and ValueError for one that is not from 0 to LARGEST_AMOUNT.
    """

    _doubles: ClassVar[frozenset[Resource]] = frozenset({Resource.CPU})

    memory_mib: int | None = None
    disk_gib: int | None = None

    @classmethod
    def from_attributes(cls, attributes: Attributes, prefix: str) -> Self:
        """Read `<prefix>.<resource>`; memory or disk with a fraction is no declared shape, and absent."""
        observed = SandboxResourceAmounts.from_attributes(attributes, prefix)
        return cls(
            cpu=observed.cpu,
            memory_mib=_declared(observed.memory_mib),
            disk_gib=_declared(observed.disk_gib),
            gpu=observed.gpu,
            gpu_type=observed.gpu_type,
        )

    def __post_init__(self) -> None:
        _check("cpu", self.cpu, int, float)
        _check("memory_mib", self.memory_mib, int)
        _check("disk_gib", self.disk_gib, int)
        _check("gpu", self.gpu, int)
        if self.gpu_type is not None and not isinstance(self.gpu_type, str):
            raise TypeError(f"gpu_type: {type(self.gpu_type).__name__} is not a string")


def _check(name: str, value: float | None, *allowed: type) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise TypeError(f"{name}: {type(value).__name__} is not {' or '.join(kind.__name__ for kind in allowed)}")
    if not 0 <= value <= LARGEST_AMOUNT:
        raise ValueError(f"{name}: must be a number from 0 to {LARGEST_AMOUNT}")


_Amount = TypeVar("_Amount", int, float)


def _possible(value: _Amount | None) -> _Amount | None:
    return value if value is not None and 0 <= value <= LARGEST_AMOUNT else None


def _declared(value: float | None) -> int | None:
    return int(value) if value is not None and value == int(value) else None
