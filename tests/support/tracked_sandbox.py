"""One sandbox of the active set, made without its spans: for whoever only looks at it."""

from types import SimpleNamespace
from typing import Any

from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.reading.context import ReadingContext
from sandgauge_poller.status.fleet import Fleet
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.fold import Lifecycle
from sandgauge_poller.tracking.progress import Progress, RunningStatistics
from sandgauge_poller.tracking.routing import RouteOutcome
from sandgauge_schemas.names import ResourceSource
from sandgauge_schemas.records import Allocation, ComponentAllocation, JoinKeys, StartRecord
from sandgauge_schemas.resources import SandboxResourceAmounts

NOW_NS = 1_795_000_000_000_000_000
S_NS = 10**9


def tracked(
    sandbox_id: str = "s-1",
    *,
    deployment: str | None = "training",
    run: str | None = "run-1",
    rollout: str | None = "3-0",
    request: str | None = None,
    age_s: float = 100.0,
    **progress: Any,
) -> Tracked:
    """Return a sandbox that began so many seconds before NOW_NS, with the fields of its progress."""
    keys = JoinKeys(run_id=run, rollout_id=rollout, request_id=request, sandbox_id=sandbox_id, provider="opensandbox")
    began_ns = NOW_NS - round(age_s * S_NS)
    start = StartEvent(
        trace_id=b"\x01" * 16,
        span_id=b"\x02" * 8,
        start_ns=began_ns,
        end_ns=began_ns,
        received_ns=began_ns,
        record=StartRecord(keys=keys),
    )
    return Tracked(
        SandboxKey(deployment or "opensandbox", sandbox_id),
        deployment,
        RouteOutcome.MATCHED if deployment is not None else RouteOutcome.UNMATCHED,
        Lifecycle(start=start, naming_start=start if rollout is not None else None),
        Progress(**progress),
    )


def read(**last: float) -> dict[str, RunningStatistics]:
    """Return the statistics of one reading, by the metric's last word."""
    return {f"gym.sandbox.{name}": RunningStatistics.of(value) for name, value in last.items()}


def limited(*components: tuple[str, float, float]) -> Allocation:
    """Return an allocation of components: name, CPU and MiB of each one's limits."""
    return Allocation(
        components=tuple(
            ComponentAllocation(name=name, limits=SandboxResourceAmounts(cpu=cpu, memory_mib=memory_mib))
            for name, cpu, memory_mib in components
        )
    )


def fleet(*sandboxes: Tracked, without_execd: frozenset[str] = frozenset()) -> Fleet:
    """Return a fleet of two deployments, read every ten seconds; usage sources are swept every fifteen."""
    settings = SimpleNamespace(collection_interval=10.0, min_interval=2.0)
    provider = SimpleNamespace(read_slots=lambda: None)
    context = ReadingContext(
        settings=settings,
        clock=None,
        providers={"training": provider, "evaluation": provider},
        sink=None,
        metrics=None,
        finish=None,
        first_reads={},
        without_execd=without_execd,
    )
    return Fleet(list(sandboxes), context, {ResourceSource.DOCKER_STATS: 15.0}, lambda: NOW_NS)
