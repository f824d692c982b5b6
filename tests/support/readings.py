"""Readings of invented sandboxes, second by second, and what a recorder has kept of them."""

from typing import Any

from sandgauge_poller.export import outbox
from sandgauge_poller.export.sandbox_encoding import PointSettings
from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.reading.provider import AllocationReading, ReadWindow, SampleReading, Usage
from sandgauge_poller.tracking import progress_rows
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.fold import Lifecycle
from sandgauge_poller.tracking.progress import Progress
from sandgauge_poller.tracking.routing import RouteOutcome
from sandgauge_schemas.names import ErrorType, ResourceSource, Signal
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import Allocation, ComponentAllocation, JoinKeys, StartRecord, Submission
from sandgauge_schemas.resources import SandboxResourceAmounts
from support.otlp_proto import SeenSpan, spans_of_payloads

SECOND = 10**9
T0 = 1_795_000_000 * SECOND
"""When the sandboxes were started, ns since the epoch."""

SETTINGS = PointSettings(metrics=True, rollout_id=True, request_id=True, max_clock_skew_ns=60 * SECOND)
CONTAINER = Identity("docker-container", "http://osb", "240b23285899")


def tracked(number: int = 1, submission: Submission = Submission()) -> Tracked:  # it is frozen
    """Return a sandbox that has just been started."""
    keys = JoinKeys(run_id="run-1", request_id="q-1", sandbox_id=f"sb-{number}", provider="opensandbox")
    start = StartEvent(
        trace_id=bytes([number]) * 16,
        span_id=bytes([number]) * 8,
        start_ns=T0 - SECOND,
        end_ns=T0,
        received_ns=T0,
        record=StartRecord(keys=keys, submission=submission),
    )
    key = SandboxKey("training", f"sb-{number}")
    return Tracked(key, "training", RouteOutcome.MATCHED, Lifecycle(start=start))


def window(at_s: float) -> ReadWindow:
    """Return the second in which something is read."""
    return ReadWindow(T0 + round(at_s * SECOND), T0 + round((at_s + 1) * SECOND))


def sample(at_s: float = 1, **numbers: Any) -> SampleReading:
    """Return a good reading by execd."""
    usual = {"cpu_count": 2.0, "cpu_used_percentage": 12.5, "memory_total_mib": 24105.5, "memory_used_mib": 600.0}
    usage = Usage(**{"timestamp_ms": (T0 + round(at_s * SECOND)) // 10**6, **usual, **numbers})
    return SampleReading(window=window(at_s), source=ResourceSource.OPENSANDBOX_EXECD, usage=usage)


def failed(at_s: float, error_type: ErrorType = ErrorType.TIMEOUT) -> SampleReading:
    """Return a reading by execd of which nothing came."""
    return SampleReading(window=window(at_s), source=ResourceSource.OPENSANDBOX_EXECD, error_type=error_type)


def limited(**limits: float) -> Allocation:
    """Return the allocation of a container with these limits."""
    components = (ComponentAllocation(name="sandbox", limits=SandboxResourceAmounts(**limits)),)
    return Allocation(components=components, designator=CONTAINER)


def allocation(at_s: float, found: Allocation, error_type: ErrorType | None = None) -> AllocationReading:
    """Return a reading of an allocation."""
    source = ResourceSource.OPENSANDBOX_INSPECT_DOCKER
    return AllocationReading(window=window(at_s), source=source, error_type=error_type, allocation=found)


def pending(database: Database) -> dict[Signal, int]:
    """Return how many records of each signal wait in the outbox."""
    return {signal: account.pending for signal, account in database.read(outbox.accounts).items()}


def stored(database: Database, sandbox: Tracked) -> Progress | None:
    """Return the progress of a sandbox as it was kept."""
    return database.read(progress_rows.load_all).get(sandbox.key)


def waiting_spans(database: Database) -> list[SeenSpan]:
    """Return the spans that wait in the outbox."""
    batch = database.read(lambda connection: outbox.take(connection, Signal.TRACES, max_bytes=2**20, max_rows=9))
    return spans_of_payloads(batch.payloads)
