"""The numbers that execd answers `/metrics` with, and how it writes them."""

import json
import math

from sandgauge_demo.deployment.model import ExecdKind, SimulatedNode, SimulatedSandbox
from sandgauge_demo.deployment.usage import amount, usage_at
from sandgauge_schemas.quantity import Quantity

ACCESS_TOKEN_VARIABLE = "EXECD_ACCESS_TOKEN"  # noqa: S105 - the variable's name
ACCESS_TOKEN_HEADER = "X-EXECD-ACCESS-TOKEN"  # noqa: S105 - the header's name
CONTENT_TYPE = "application/json; charset=utf-8"

_FEWEST_CPUS = 2


def metrics_body(sandbox: SimulatedSandbox, *, deployment_started_at: float, read_at: float) -> bytes:
    """Return the JSON of one reading.

    Whose machine the numbers describe depends on what execd runs in; the timestamp is the start of the read.
    """
    cpus, used_percentage, total_mib, used_mib = _numbers(sandbox, deployment_started_at, read_at)
    numbers = {
        "cpu_count": cpus,
        "cpu_used_pct": _plain(used_percentage),
        "mem_total_mib": _plain(total_mib),
        "mem_used_mib": _plain(used_mib),
        "timestamp": int(read_at * 1000),
    }
    return json.dumps(numbers, separators=(",", ":")).encode()


def _numbers(
    sandbox: SimulatedSandbox, deployment_started_at: float, read_at: float
) -> tuple[int, float, float, float]:
    node = sandbox.node
    cpu_limit = amount(sandbox.limits.get("cpu"), Quantity.to_cores)
    memory_limit = amount(sandbox.limits.get("memory"), Quantity.to_mebibytes)
    own = usage_at(sandbox.usage, read_at - sandbox.created_at)
    total_mib = memory_limit or node.memory_mib
    used_mib = min(own.memory_mib, total_mib)
    match sandbox.execd_kind:
        case ExecdKind.RUNC:
            whole = usage_at(node.usage, read_at - deployment_started_at)
            cpus = _visible_cpus(cpu_limit, node)
            return cpus, _percentage(whole.cpu_cores, node.cpus), node.memory_mib, whole.memory_mib
        case ExecdKind.GVISOR:
            return _FEWEST_CPUS, 0.0, total_mib, used_mib
        case ExecdKind.GUEST:
            cpus = node.cpus if cpu_limit is None else math.ceil(cpu_limit)
            return cpus, _percentage(own.cpu_cores, cpus), total_mib, used_mib


def _visible_cpus(limit: float | None, node: SimulatedNode) -> int:
    """Count CPUs as the Go runtime below execd does: a limit is rounded up, and never shown as less than two."""
    return node.cpus if limit is None else min(node.cpus, max(_FEWEST_CPUS, math.ceil(limit)))


def _percentage(cores: float, of: int) -> float:
    return min(100.0, 100.0 * cores / of)


def _plain(value: float) -> float | int:
    """Write whole numbers without decimals, as Go does."""
    return int(value) if value.is_integer() else value
