"""The poller's spans in a receiver by sandbox, each request looked at once: for tests of many sandboxes."""

from collections import defaultdict

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_schemas import names
from support.otlp_proto import SeenSpan, spans_of
from support.otlp_sink import OtlpSink

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE


class SandboxRecords:
    """Accepted spans of a receiver."""

    def __init__(self, sink: OtlpSink) -> None:
        self._sink = sink
        self._looked_at = 0
        self._spans: defaultdict[tuple[str, str], list[SeenSpan]] = defaultdict(list)

    def of(self, sandbox_id: str, name: str = SAMPLE) -> list[SeenSpan]:
        """Return a sandbox's spans of a name so far, in the order in which they came."""
        requests = self._sink.requests()
        for request in requests[self._looked_at :]:
            if isinstance(request.message, ExportTraceServiceRequest) and request.status < 300:
                for span in spans_of(request.message):
                    self._spans[span.attributes.get(names.NEMO_GYM_SANDBOX_ID, ""), span.name].append(span)
        self._looked_at = len(requests)
        return list(self._spans[sandbox_id, name])
