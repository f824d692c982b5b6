"""The pods of a `PodMetricsList` (metrics.k8s.io/v1beta1).

Its numbers are means over `window`, which ends at `timestamp`; memory is the working set. `creationTimestamp` is the
time of the answer, and there is no uid. A pod is left out by the server while any of its containers has no numbers.
"""

from functools import lru_cache, reduce
from operator import add
from typing import Any, NamedTuple

from sandgauge_poller.reading.kubernetes.durations import parse_duration
from sandgauge_poller.reading.kubernetes.lists import Page, read_page
from sandgauge_poller.reading.times import read_time
from sandgauge_poller.reading.usage.source import UsageObservation
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.quantity import Quantity, parse_quantity


class PodUsage(NamedTuple):
    """Sum over a pod's containers, and their names; its time is the end of the window, on the cluster's clock."""

    observation: UsageObservation
    containers: frozenset[str]


# The pods of a node share their time, and there are many pods to a time.
_read_time = lru_cache(maxsize=64)(read_time)


class _UnusableError(Exception):
    """Why a pod has no usable numbers."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type)
        self.error_type = error_type


def parse_pod_metrics(body: bytes, wanted: frozenset[str]) -> Page[PodUsage | ErrorType] | None:
    """Return what a list says of the wanted pods, or None where it is no such list.

    A pod with an error type is listed and has no usable numbers.
    """

    def condense(pod: dict[str, Any]) -> tuple[str, PodUsage | ErrorType] | None:
        metadata = pod.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not isinstance(name, str) or name not in wanted:
            return None
        try:
            return name, _read(pod)
        except _UnusableError as error:
            return name, error.error_type

    return read_page(body, "PodMetricsList", "containers", condense)


def _read(pod: dict[str, Any]) -> PodUsage:
    containers, timestamp, window = pod["containers"], pod.get("timestamp"), pod.get("window")
    if not (isinstance(containers, list) and isinstance(timestamp, str) and isinstance(window, str)):
        raise _UnusableError(ErrorType.UNRECOGNIZED_FORMAT)
    if not containers:
        raise _UnusableError(ErrorType.NO_READING)
    names, cpus, memories = zip(*map(_read_container, containers), strict=True)
    timestamp_ns, window_s = _read_time(timestamp), parse_duration(window)
    if timestamp_ns is None or timestamp_ns < 0 or not window_s:
        raise _UnusableError(ErrorType.INVALID_VALUE)
    cpu, memory = reduce(add, cpus), reduce(add, memories)
    observation = UsageObservation(
        timestamp_ns=timestamp_ns,
        cpu_used_cores=cpu.to_cores(),
        window_s=window_s,
        memory_working_set_mib=memory.to_mebibytes(),
    )
    return PodUsage(observation, frozenset(names))


def _read_container(container: object) -> tuple[str, Quantity, Quantity]:
    usage = container.get("usage") if isinstance(container, dict) else None
    name = container.get("name") if isinstance(container, dict) else None
    if not isinstance(usage, dict) or not isinstance(name, str):
        raise _UnusableError(ErrorType.UNRECOGNIZED_FORMAT)
    cpu, memory = _quantity(usage.get("cpu")), _quantity(usage.get("memory"))
    if not memory.value:
        # A container that runs takes some: this one was not measured yet. One that idles may well use no CPU.
        raise _UnusableError(ErrorType.NO_READING)
    return name, cpu, memory


def _quantity(text: object) -> Quantity:
    if text is None:
        raise _UnusableError(ErrorType.NO_READING)
    quantity = parse_quantity(text) if isinstance(text, str) else None
    if not isinstance(quantity, Quantity) or quantity.value < 0:
        raise _UnusableError(ErrorType.INVALID_VALUE)
    return quantity
