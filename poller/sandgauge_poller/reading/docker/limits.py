"""What Docker holds a container to, out of the `HostConfig` of an inspect answer.

Requests do not exist in Docker: shares and the memory reservation are weights and wishes, and become none here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from sandgauge_schemas.names import AllocationNote
from sandgauge_schemas.resources import LARGEST_AMOUNT, SandboxResourceAmounts

_DEFAULT_PERIOD_US = 100_000
"""The kernel's period of a CPU quota, which a 0 in the answer stands for."""

_MOST_CPUS = 8192
"""Most CPUs that Linux knows."""

_CPU_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
# Docker reads powers of 1024 whatever the unit says: `1G`, `1GB` and `1GiB` are one size.
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?) ?([kmgtp]?)i?b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
# An index or the id of a whole device; `0:1` and `MIG-…` are slices of one.
_WHOLE_GPU = re.compile(r"[0-9]+|GPU-[0-9A-Fa-f-]+")

_Host = Mapping[str, Any]


class _UnreadableError(Exception):
    """A limit is in another form than Docker's."""


def read_limits(host: _Host) -> tuple[SandboxResourceAmounts, frozenset[AllocationNote]]:
    """Return the limits in force, and what to note about them.

    A limit that is not set is absent, and so is one in another form than Docker's, which is noted
    `unreadable_quantity`.
    """
    amounts: dict[str, Any] = {}
    unreadable = False
    for key, read in _READERS.items():
        try:
            amounts[key] = read(host)
        except _UnreadableError:
            unreadable = True
    notes = frozenset({AllocationNote.UNREADABLE_QUANTITY} if unreadable else ())
    return SandboxResourceAmounts(**amounts), notes


def _cpu(host: _Host) -> float | None:
    """Return cores: a quota of time in either of its two forms, and no more than the CPUs it may run on."""
    nano, quota, period = (_whole(host.get(key)) for key in ("NanoCpus", "CpuQuota", "CpuPeriod"))
    bounds: list[float] = []
    if nano > 0:
        bounds.append(nano / 10**9)
    elif quota > 0:
        bounds.append(quota / (period or _DEFAULT_PERIOD_US))
    if cpuset := host.get("CpusetCpus"):
        bounds.append(_cpuset_size(cpuset))
    return min(bounds, default=None)


def _cpuset_size(text: object) -> int:
    """Return how many CPUs a list such as `0-2,5` names."""
    cpus: set[int] = set()
    for part in _text(text).split(","):
        match = _CPU_RANGE.fullmatch(part.strip())
        if match is None:
            raise _UnreadableError
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < _MOST_CPUS:
            raise _UnreadableError
        cpus.update(range(first, last + 1))
    return len(cpus)


def _memory(host: _Host) -> float | None:
    size = _whole(host.get("Memory"))
    return size / 2**20 if size > 0 else None


def _disk(host: _Host) -> float | None:
    """Return GiB of the container's own layer, which few storage drivers bound."""
    options = host.get("StorageOpt")
    if not options:
        return None
    if not isinstance(options, dict):
        raise _UnreadableError
    size = next((value for key, value in options.items() if key.lower() == "size"), None)
    if size is None:
        return None
    match = _SIZE.fullmatch(_text(size))
    if match is None:
        raise _UnreadableError
    return float(match[1]) * 1024.0 ** (_POWERS[match[2].lower()] - 3) or None


def _gpu(host: _Host) -> int | None:
    """Return how many whole GPUs were handed in; None where one of the demands is for all that there are."""
    counts = [_gpu_count(request) for request in _objects(host.get("DeviceRequests")) if _is_gpu(request)]
    known = [count for count in counts if count is not None]
    return sum(known) or None if len(known) == len(counts) else None


def _is_gpu(request: _Host) -> bool:
    # Alternatives, each a list of what a device must be capable of.
    return any("gpu" in alternative for alternative in _lists(request.get("Capabilities")))


def _gpu_count(request: _Host) -> int | None:
    if ids := request.get("DeviceIDs"):
        if not isinstance(ids, list) or not all(isinstance(id_, str) for id_ in ids):
            raise _UnreadableError
        return len(set(ids)) if all(map(_WHOLE_GPU.fullmatch, ids)) else None
    count = _whole(request.get("Count"))
    return count if count >= 0 else None


def _whole(value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > LARGEST_AMOUNT:
        raise _UnreadableError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _UnreadableError
    return value


def _objects(value: object) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _UnreadableError
    return value


def _lists(value: object) -> list[list[Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, list) for item in value):
        raise _UnreadableError
    return value


_READERS: Mapping[str, Callable[[_Host], float | None]] = {
    "cpu": _cpu,
    "memory_mib": _memory,
    "disk_gib": _disk,
    "gpu": _gpu,
}
