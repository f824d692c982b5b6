"""Rows of an outbox as a recorder would have put them there, and the account of what became of them."""

from collections.abc import Iterable

from sandgauge_poller.export import outbox
from sandgauge_poller.export.messages import MetricPoint, encode_points
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.tracking.database import Database
from sandgauge_schemas import names
from sandgauge_schemas.names import ErrorType, ExportOutcome, ResourceSource, Signal
from sandgauge_schemas.records import JoinKeys, ReadingStatus, SampleRecord
from support.otlp_proto import encoded_span

NOW_NS = 1_767_225_600_000_000_000
_KEYS = JoinKeys(run_id="run-1", sandbox_id="sb-1", provider="opensandbox")
_POINT_ATTRIBUTES = {**_KEYS.to_attributes(), names.NEMO_GYM_SANDBOX_SAMPLE_SCOPE: names.SampleScope.NODE}


def span_item(number: int = 1) -> OutboxItem:
    """Return the row of one sample span."""
    status = ReadingStatus(source=ResourceSource.OPENSANDBOX_EXECD, error_type=ErrorType.TIMEOUT)
    payload = encoded_span(
        name=names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
        trace_id=bytes(range(16)),
        parent_span_id=b"\x01" * 8,
        span_id=number.to_bytes(8, "big"),
        start_ns=NOW_NS,
        end_ns=NOW_NS + 1,
        attributes=SampleRecord(keys=_KEYS, status=status).to_attributes(),
        error=True,
    )
    return OutboxItem(signal=Signal.TRACES, rank=Rank.SAMPLE, created_ns=NOW_NS, items=1, payload=payload)


def span_items(count: int) -> Iterable[OutboxItem]:
    """Return so many of them."""
    return (span_item(number) for number in range(1, count + 1))


def point_item(value: float = 1.0, time_ns: int = NOW_NS) -> OutboxItem:
    """Return the row of two points."""
    metrics = (names.METRIC_GYM_SANDBOX_CPU_COUNT, names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB)
    points = [
        MetricPoint(metric=metric, value=value, time_ns=time_ns, attributes=_POINT_ATTRIBUTES) for metric in metrics
    ]
    payload = encode_points(points)
    return OutboxItem(signal=Signal.METRICS, rank=Rank.POINT, created_ns=time_ns, items=2, payload=payload)


def put(database: Database, *items: OutboxItem) -> None:
    """Commit rows."""
    database.submit(lambda connection: outbox.append(connection, items)).result(60)


def counts(database: Database, signal: Signal) -> tuple[int, ...]:
    """Return produced, delivered, rejected, dropped and pending, which must add up."""
    account = database.read(outbox.accounts)[signal]
    produced, delivered, rejected, dropped = (account.outcomes[outcome] for outcome in ExportOutcome)
    assert produced == delivered + rejected + dropped + account.pending
    return produced, delivered, rejected, dropped, account.pending
