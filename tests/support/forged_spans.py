"""Start spans of sandboxes that nobody made, in batches as a Collector sends them."""

import secrets
import time
from collections.abc import Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_schemas import names
from support.direct_session import direct_session


def forged_batches(count: int, size: int = 5000) -> Iterator[bytes]:
    """Yield requests in protobuf with so many start spans in all, each of an id of its own."""
    for at in range(0, count, size):
        request, now = ExportTraceServiceRequest(), time.time_ns()
        spans = request.resource_spans.add().scope_spans.add().spans
        for number in range(at, min(at + size, count)):
            span = spans.add(
                name=names.SPAN_GYM_SANDBOX_START,
                trace_id=secrets.token_bytes(16),
                span_id=secrets.token_bytes(8),
                start_time_unix_nano=now - 10**9,
                end_time_unix_nano=now,
            )
            span.attributes.add(key=names.NEMO_GYM_SANDBOX_ID).value.string_value = f"forged-{number}"
            span.attributes.add(key=names.NEMO_GYM_SANDBOX_PROVIDER).value.string_value = "opensandbox"
        yield request.SerializeToString()


def flood(endpoint: str, count: int) -> float:
    """Send so many forged spans and insist on 200; return how many a second were taken."""
    start = time.monotonic()
    with direct_session() as session:
        for batch in forged_batches(count):
            headers = {"Content-Type": "application/x-protobuf"}
            answer = session.post(f"{endpoint}/v1/traces", data=batch, headers=headers, timeout=60)
            assert answer.status_code == 200, answer.text
    return count / (time.monotonic() - start)
