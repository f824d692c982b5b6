"""What Jaeger's query API shows of a trace, in the few words that tests ask in."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """One span: the service that made it, its name, its start in seconds since the epoch, and its attributes."""

    service: str
    name: str
    start_s: float
    tags: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one trace."""

    trace_id: str
    spans: tuple[ShownSpan, ...]

    @classmethod
    def of(cls, shown: dict[str, Any]) -> Self:
        """Read one entry of `data`."""
        services = {key: process["serviceName"] for key, process in shown["processes"].items()}
        spans = (
            ShownSpan(
                service=services[span["processID"]],
                name=span["operationName"],
                start_s=span["startTime"] / 1e6,
                tags={tag["key"]: tag["value"] for tag in span["tags"]},
            )
            for span in shown["spans"]
        )
        return cls(shown["traceID"], tuple(spans))

    def names(self, service: str | None = None) -> set[str]:
        """The names of its spans, or of those that a service made."""
        return {span.name for span in self.spans if service in (None, span.service)}
