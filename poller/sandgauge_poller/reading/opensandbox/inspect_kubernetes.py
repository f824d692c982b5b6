"""The inspect text of a Kubernetes pod: requests and limits of each container, and the node.

The message of a terminated container is written by the program inside it and stands, newlines and all, among the
container statuses. Trusted are the header, the container statuses up to the first message, and of each later section
its last occurrence, since the server prints the real ones after every message.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from sandgauge_poller.reading.opensandbox.inspect_result import InspectResult, missing_quantity, read_header
from sandgauge_poller.reading.times import read_time
from sandgauge_schemas.names import AllocationNote, DesignatorKind, HostKind, ResourceSource
from sandgauge_schemas.records import ComponentAllocation
from sandgauge_schemas.resource_names import read_amounts
from sandgauge_schemas.resources import SandboxResourceAmounts

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_COMPONENT = re.compile(r"  ([A-Za-z0-9._-]{1,253}):")
_SIDE = re.compile(r"    (Requests|Limits): +(.*)")
_ENTRY = r"'([^'\\]*+)': '([^'\\]*+)'"
_MAP = re.compile(rf"\{{(?:{_ENTRY}(?:, {_ENTRY})*+)?\}}")
_CONDITION = re.compile(r"  (PodResizePending|PodResizeInProgress): True \(reason=(.*)\)")
_OOM_KILLED = re.compile(r"    (?:State|Last State): +Terminated \(exit=-?[0-9]+, reason=OOMKilled\)")
_RESTARTS = re.compile(r"    Restart Count: +([0-9]{1,9})")

_UNREADABLE = frozenset({AllocationNote.UNREADABLE_QUANTITY})


def parse_kubernetes(lines: Sequence[str]) -> InspectResult:
    """Read a Kubernetes inspect text; a container with neither requests nor limits is a component all the same."""
    header = read_header(lines)
    pod, namespace, node = (_name(header.get(key, "")) for key in ("Pod Name", "Namespace", "Node"))
    resources = _last_section(lines, "Resources:")
    components, notes = _read_components(lines[resources + 1 :])
    status = list(_main_status(lines, [component.name for component in components]))
    return InspectResult(
        source=ResourceSource.OPENSANDBOX_INSPECT_KUBERNETES,
        components=components,
        notes=notes | _resize_notes(lines[:resources]),
        designator_kind=DesignatorKind.KUBERNETES if pod and namespace else None,
        designator_id=f"namespaces/{namespace}/pods/{pod}" if pod and namespace else None,
        host_kind=HostKind.KUBERNETES_NODE if node else None,
        host_id=node,
        oom_killed=_oom_killed(status),
        started_ns=read_time(header.get("Start Time", "")),
        restarts=_restarts(status),
        error=missing_quantity(components),
    )


def _name(value: str) -> str | None:
    """Return an object's name; `N/A` and `None` stand for none and are no lower-case names."""
    return value if _NAME.fullmatch(value) else None


def _last_section(lines: Sequence[str], title: str) -> int:
    """Return the number of the section's last title line, or of the line after the last."""
    for number in range(len(lines) - 1, 0, -1):
        if lines[number] == title and not lines[number - 1]:
            return number
    return len(lines)


def _read_components(block: Sequence[str]) -> tuple[tuple[ComponentAllocation, ...], frozenset[AllocationNote]]:
    """Read the block that ends the text; one that holds anything else than containers is not the server's own."""
    printed: list[tuple[str, dict[str, str]]] = []
    for line in block:
        if component := _COMPONENT.fullmatch(line):
            printed.append((component[1], {}))
        elif not printed or not line.startswith("    "):
            return (), _UNREADABLE
        elif side := _SIDE.fullmatch(line):
            printed[-1][1][side[1]] = side[2]
    components = []
    notes: frozenset[AllocationNote] = frozenset()
    for name, sides in printed:
        requests, requests_notes = _read_map(sides.get("Requests", "{}"))
        limits, limits_notes = _read_map(sides.get("Limits", "{}"))
        components.append(ComponentAllocation(name=name, requests=requests, limits=limits))
        notes |= requests_notes | limits_notes
    return tuple(components), notes


def _read_map(text: str) -> tuple[SandboxResourceAmounts, frozenset[AllocationNote]]:
    """Read the repr of a Python dict of plain strings; neither names nor quantities ever need a quote or an escape."""
    if _MAP.fullmatch(text) is None:
        return SandboxResourceAmounts(), _UNREADABLE
    return read_amounts(dict(re.findall(_ENTRY, text)))


def _resize_notes(lines: Sequence[str]) -> frozenset[AllocationNote]:
    """Return what the pod's conditions say of a resize: until it is applied, the printed amounts are only desired."""
    notes = set()
    for line in takewhile(bool, lines[_last_section(lines, "Conditions:") + 1 :]):
        if (condition := _CONDITION.fullmatch(line)) is None:
            continue
        if condition[1] == "PodResizeInProgress":
            notes.add(AllocationNote.RESIZE_IN_PROGRESS)
        elif condition[2] == "Infeasible":
            notes.add(AllocationNote.RESIZE_INFEASIBLE)
        else:
            notes.add(AllocationNote.RESIZE_PENDING)
    return frozenset(notes)


def _main_status(lines: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yield the status lines of the sandbox's own container, up to the first message: after it all may be forged."""
    name = "sandbox" if "sandbox" in names else names[0] if len(names) == 1 else None
    start = lines.index("") + 1 if "" in lines else len(lines)
    if name is None or lines[start : start + 1] != ["Containers:"]:
        return
    container = None
    for line in takewhile(bool, lines[start + 1 :]):
        if line.startswith("    Message:"):
            return
        if title := _COMPONENT.fullmatch(line):
            container = title[1]
        elif container == name:
            yield line


def _oom_killed(status: Sequence[str]) -> bool | None:
    """Return True for a container killed for memory, now or in its last life; no False: earlier lives are not told."""
    return True if any(_OOM_KILLED.fullmatch(line) for line in status) else None


def _restarts(status: Sequence[str]) -> int | None:
    counts = [int(count[1]) for line in status if (count := _RESTARTS.fullmatch(line))]
    return counts[0] if len(counts) == 1 else None
