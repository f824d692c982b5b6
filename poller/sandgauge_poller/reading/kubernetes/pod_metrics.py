"""The pods of a `PodMetricsList` (metrics.k8s.io/v1beta1).

Its numbers are means over `window`, which ends at `timestamp`; memory is the working set. `creationTimestamp` is the
time of the answer, and there is no uid. A pod is left out by the server while any of its containers has no numbers.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sandgauge_poller.reading.kubernetes.durations import parse_duration
from sandgauge_poller.reading.kubernetes.lists import Page, read_page
from sandgauge_poller.reading.times import read_time
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.quantity import Quantity, parse_quantity

_NOTHING = Quantity(Decimal(0))


@dataclass(frozen=True, slots=True)
class PodUsage:
    """Sum over a pod's containers, whose names are kept: cores over `window_s` seconds, MiB of working set.

    `timestamp_ns` is the end of the window, ns since the epoch on the cluster's clock.
    """

    timestamp_ns: int
    window_s: float
    cpu_used_cores: float
    memory_working_set_mib: float
    containers: frozenset[str]


class _UnusableError(Exception):
    """Why a pod has no usable numbers."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type = error_type


def parse_pod_metrics(body: bytes, wanted: frozenset[str]) -> Page[PodUsage | ErrorType] | None:
    """Return what a list says of the wanted pods, or None where it is no such list.

    A pod with an error type is listed and has no usable numbers.
    """

    def reduce(pod: dict[str, Any]) -> tuple[str, PodUsage | ErrorType] | None:
        metadata = pod.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or name not in wanted:
            return None
        try:
            return name, _read(pod)
        except _UnusableError as error:
            return name, error.error_type

    return read_page(body, "PodMetricsList", "containers", reduce)


def _read(pod: dict[str, Any]) -> PodUsage:
    containers, timestamp, window = pod["containers"], pod.get("timestamp"), pod.get("window")
    if not (isinstance(containers, list) and isinstance(timestamp, str) and isinstance(window, str)):
        raise _UnusableError(ErrorType.UNRECOGNIZED_FORMAT)
    if not containers:
        raise _UnusableError(ErrorType.NO_READING)
    cpu, memory, found = _NOTHING, _NOTHING, set()
    for container in containers:
        name, used_cpu, used_memory = _read_container(container)
        cpu, memory = cpu + used_cpu, memory + used_memory
        found.add(name)
    timestamp_ns, window_s = read_time(timestamp), parse_duration(window)
    if timestamp_ns is None or not window_s:
        raise _UnusableError(ErrorType.INVALID_VALUE)
    return PodUsage(timestamp_ns, window_s, cpu.to_cores(), memory.to_mebibytes(), frozenset(found))


def _read_container(container: object) -> tuple[str, Quantity, Quantity]:
    usage = container.get("usage") if isinstance(container, dict) else None
    name = container.get("name") if isinstance(container, dict) else None
    if not isinstance(usage, dict) or not isinstance(name, str):
        raise _UnusableError(ErrorType.UNRECOGNIZED_FORMAT)
    cpu, memory = _quantity(usage.get("cpu")), _quantity(usage.get("memory"))
    if memory == _NOTHING:
        # A container that runs takes some: this one was not measured yet. One that idles may well use no CPU.
        raise _UnusableError(ErrorType.NO_READING)
    return name, cpu, memory


def _quantity(text: object) -> Quantity:
    if text is None:
        raise _UnusableError(ErrorType.NO_READING)
    quantity = parse_quantity(text) if isinstance(text, str) else None
    if not isinstance(quantity, Quantity) or quantity < _NOTHING:
        raise _UnusableError(ErrorType.INVALID_VALUE)
    return quantity
