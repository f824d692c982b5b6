"""Which Kubernetes resource names mean which key of the resource vocabulary: the one published table."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sandgauge_schemas.names import AllocationNote
from sandgauge_schemas.quantity import Quantity, QuantityError, parse_quantity
from sandgauge_schemas.resources import SandboxResourceAmounts

VOCABULARY: Mapping[str, str] = MappingProxyType(
    {
        "cpu": "cpu",
        "memory": "memory_mib",
        "ephemeral-storage": "disk_gib",
        "nvidia.com/gpu": "gpu",
        "amd.com/gpu": "gpu",
        "gpu.intel.com/i915": "gpu",
        "gpu.intel.com/xe": "gpu",
    }
)
"""Resource name to vocabulary key.

Only names that count whole devices mean `gpu`. MIG and other slices (`nvidia.com/mig-1g.5gb`), renamed shares
(`nvidia.com/gpu.shared`), monitoring handles, huge pages and every other vendor's names mean nothing here:
no guess beats a wrong number.
"""

_UNITS: Mapping[str, Callable[[Quantity], float | QuantityError]] = {
    "cpu": Quantity.to_cores,
    "memory_mib": Quantity.to_mebibytes,
    "disk_gib": Quantity.to_gibibytes,
    "gpu": Quantity.to_count,
}


def read_amounts(quantities: Mapping[str, str]) -> tuple[SandboxResourceAmounts, frozenset[AllocationNote]]:
    """Return the amounts of a map from Kubernetes resource names to quantity texts, and what to note about them.

    A quantity outside the grammar, a negative one, and a `gpu` that is no whole number are absent and noted
    `unreadable_quantity`. GPUs of several names add up, since each counts whole devices; if one of them is unreadable,
    so is the sum.
    """
    amounts: dict[str, float] = {}
    unreadable: set[str] = set()
    for name, text in quantities.items():
        if (key := VOCABULARY.get(name)) is None:
            continue
        amount = _read(text, _UNITS[key])
        if amount is None:
            unreadable.add(key)
        else:
            amounts[key] = amounts.get(key, 0) + amount
    for key in unreadable:
        amounts.pop(key, None)
    gpu = amounts.get("gpu")
    readable = SandboxResourceAmounts(
        cpu=amounts.get("cpu"),
        memory_mib=amounts.get("memory_mib"),
        disk_gib=amounts.get("disk_gib"),
        gpu=None if gpu is None else int(gpu),
    )
    return readable, frozenset({AllocationNote.UNREADABLE_QUANTITY} if unreadable else ())


def _read(text: str, unit: Callable[[Quantity], float | QuantityError]) -> float | None:
    quantity = parse_quantity(text)
    if isinstance(quantity, QuantityError) or quantity.value < 0:
        return None
    amount = unit(quantity)
    return None if isinstance(amount, QuantityError) else amount
