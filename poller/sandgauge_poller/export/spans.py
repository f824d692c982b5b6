"""The span of a record: below the start span, with an id that is the same whenever it is made."""

from sandgauge_poller.export.messages import encode_span, span_id
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.export.sandbox_encoding import SandboxEncoding
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes
from sandgauge_schemas.names import ResourceSource, Signal


def record_span(  # noqa: PLR0913  # one parameter for each part of the span's identity
    encoding: SandboxEncoding,
    name: str,
    source: ResourceSource | None,
    window: ReadWindow,
    attributes: Attributes,
    *,
    rank: Rank,
    head: bytes | None = None,
) -> OutboxItem:
    """Return the outbox row of a span in the sandbox's trace; `head` has its first attributes where it is known."""
    identity = span_id(
        trace_id=encoding.trace_id,
        deployment=encoding.key.owner,
        sandbox_id=encoding.key.sandbox_id,
        span_name=name,
        source=source or "",
        start_ns=window.start_ns,
    )
    payload = encode_span(
        encoding.span_head(name, {}) if head is None else head,
        span_id=identity,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        attributes=attributes,
        error=names.ERROR_TYPE in attributes,
    )
    return OutboxItem(signal=Signal.TRACES, rank=rank, created_ns=window.end_ns, items=1, payload=payload)
