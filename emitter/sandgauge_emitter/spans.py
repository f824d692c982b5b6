"""From a record to its span. Loads OpenTelemetry, so it is imported where the first span is made."""

import time

from opentelemetry.context import Context

from sandgauge_emitter.finished_span import FinishedSpan
from sandgauge_emitter.tracing import TRACING
from sandgauge_schemas import names
from sandgauge_schemas.records import RequestRecord, StartRecord


def emit_request(record: RequestRecord, context: Context, at_ns: int) -> None:
    """Emit `gym.sandbox.request` in the trace of the context; it has no duration."""
    # A host's limit on attributes drops the oldest ones: the join keys come last, the sidecars first.
    attributes = dict(reversed(record.to_attributes().items()))
    TRACING.emit(
        FinishedSpan(name=names.SPAN_GYM_SANDBOX_REQUEST, attributes=attributes, start_ns=at_ns, end_ns=at_ns), context
    )


def emit_start(record: StartRecord, context: Context, start_ns: int, error_type: str | None = None) -> None:
    """Emit `gym.sandbox.start`, which ends now; with an error type the creation has failed."""
    TRACING.emit(
        FinishedSpan(
            name=names.SPAN_GYM_SANDBOX_START,
            attributes=record.to_attributes(),
            start_ns=start_ns,
            # The clock may have been set back since.
            end_ns=max(time.time_ns(), start_ns),
            error_type=error_type,
        ),
        context,
    )
