"""The inspect text of a Docker container: limits only, rounded, and no word about the host.

Labels and environment come last and are the user's, newlines included; `Error:` ends the header and quotes whatever
the runtime could not start. The real `Resources:` block stands between the two.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

from sandgauge_poller.reading.opensandbox.inspect_result import InspectResult, missing_quantity, read_header
from sandgauge_poller.reading.times import read_time
from sandgauge_schemas.names import AllocationNote, DesignatorKind, ResourceSource
from sandgauge_schemas.records import ComponentAllocation
from sandgauge_schemas.resource_names import read_amounts
from sandgauge_schemas.resources import SandboxResourceAmounts

_CONTAINER_ID = re.compile(r"[0-9a-f]{12,64}")
_CPU = re.compile(r"  CPU: +([0-9]+\.[0-9]{2}) cores")
_MEMORY = re.compile(r"  Memory: +([0-9]+) MiB")
_WORDS = {"True": True, "False": False}


def parse_docker(lines: Sequence[str]) -> InspectResult:
    """Read a Docker inspect text; its one component is named `sandbox`, and its amounts are always noted as rounded."""
    header = read_header(lines)
    limits, notes = _read_limits(_resources(lines, torn="Error" in header))
    components = (ComponentAllocation(name="sandbox", limits=limits),)
    container_id = header["Container ID"]
    identified = _CONTAINER_ID.fullmatch(container_id) is not None
    return InspectResult(
        source=ResourceSource.OPENSANDBOX_INSPECT_DOCKER,
        components=components,
        notes=notes | {AllocationNote.ROUNDED},
        designator_kind=DesignatorKind.DOCKER_CONTAINER if identified else None,
        designator_id=container_id if identified else None,
        oom_killed=_WORDS.get(header.get("OOMKilled", "")),
        paused=_WORDS.get(header.get("Paused", "")),
        started_ns=read_time(header.get("Started At", "")),
        error=missing_quantity(components),
    )


def _resources(lines: Sequence[str], *, torn: bool) -> Sequence[str]:
    """Return the lines of the real block.

    It follows the header's blank line at once. In a header torn by an `Error:` of several lines it is the last one
    before the only `Network:` line; with several of those nobody can tell which were forged, so there is none.
    """
    if not torn:
        start = lines.index("") + 1 if "" in lines else len(lines)
    else:
        networks = [number for number, line in enumerate(lines) if line == "Network:"]
        if len(networks) != 1:
            return ()
        before = lines[: networks[0]]
        start = len(before) - 1 - before[::-1].index("Resources:") if "Resources:" in before else len(lines)
    if lines[start : start + 1] != ["Resources:"]:
        return ()
    return list(takewhile(bool, lines[start + 1 :]))


def _read_limits(block: Sequence[str]) -> tuple[SandboxResourceAmounts, frozenset[AllocationNote]]:
    quantities: dict[str, str] = {}
    for line in block:
        if line.startswith("  CPU:"):
            cpu = _CPU.fullmatch(line)
            quantities["cpu"] = cpu[1] if cpu else ""
        elif line.startswith("  Memory:"):
            memory = _MEMORY.fullmatch(line)
            quantities["memory"] = f"{memory[1]}Mi" if memory else ""
    amounts, notes = read_amounts(quantities)
    # A limit of nothing cannot exist: a zero here is a small limit that the printing rounded away, so it is unknown.
    limits = SandboxResourceAmounts(cpu=amounts.cpu or None, memory_mib=amounts.memory_mib or None)
    return limits, notes
