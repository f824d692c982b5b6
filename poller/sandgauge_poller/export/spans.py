"""The span of a record: below the start span, with an id that is the same whenever it is made."""

from sandgauge_poller.export.messages import encode_span, span_id
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.export.sandbox_encoding import Head
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes
from sandgauge_schemas.names import Signal


def record_span(head: Head, window: ReadWindow, attributes: Attributes, *, rank: Rank) -> OutboxItem:
    """Return the outbox row of a span in the sandbox's trace, with these attributes behind those of its head."""
    payload = encode_span(
        head.encoded,
        span_id=span_id(b"".join(head.identity), window.start_ns),
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        attributes=attributes,
        error=names.ERROR_TYPE in attributes,
    )
    return OutboxItem(signal=Signal.TRACES, rank=rank, created_ns=window.end_ns, items=1, payload=payload)
