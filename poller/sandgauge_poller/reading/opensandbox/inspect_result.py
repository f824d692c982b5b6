"""The outcome of reading an inspect text, and the one thing that its forms share: the header."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from sandgauge_schemas.names import AllocationNote, DesignatorKind, ErrorType, HostKind, ResourceSource
from sandgauge_schemas.records import ComponentAllocation


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectResult:
    """What one inspect text says; what it does not say, or cannot be trusted to say, is None or empty.

    `components` keep the control plane's order and equal names. Placement lacks its scope, which the caller knows; kind
    and id are both there or both None, also beside an error. `paused` and a False `oom_killed` come from Docker alone.
    `started_ns` is when the container or pod began its present life, in ns since the epoch on the runtime's clock;
    `restarts` is how often its main container was started again within it, where that is told.
    `error` is `unrecognized_format` for a text of unknown form, and `no_supported_quantity` for a known form that
    names no readable amount.
    """

    source: ResourceSource
    components: tuple[ComponentAllocation, ...] = ()
    notes: frozenset[AllocationNote] = frozenset()
    designator_kind: DesignatorKind | None = None
    designator_id: str | None = None
    host_kind: HostKind | None = None
    host_id: str | None = None
    oom_killed: bool | None = None
    paused: bool | None = None
    started_ns: int | None = None
    restarts: int | None = None
    error: ErrorType | None = None


def read_header(lines: Sequence[str]) -> Mapping[str, str]:
    """Return the `Key: value` lines before the first blank line.

    The value of `Error`, always the last key, is foreign text and may bring lines of its own: it ends the header.
    """
    header: dict[str, str] = {}
    for line in takewhile(bool, lines):
        key, _, value = line.partition(":")
        header[key] = value.strip()
        if key == "Error":
            break
    return header


def missing_quantity(components: Sequence[ComponentAllocation]) -> ErrorType | None:
    """Return the error of components without a single amount."""
    named = any(component.requests or component.limits for component in components)
    return None if named else ErrorType.NO_SUPPORTED_QUANTITY
