"""What Jaeger's query API shows of a trace, in the few words that tests ask in."""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one trace: the service that made each, its name, and its attributes."""

    trace_id: str
    entries: tuple[tuple[str, str, dict[str, Any]], ...]

    @classmethod
    def of(cls, shown: dict[str, Any]) -> Self:
        """Read one entry of `data`."""
        services = {key: process["serviceName"] for key, process in shown["processes"].items()}
        entries = (
            (services[span["processID"]], span["operationName"], {tag["key"]: tag["value"] for tag in span["tags"]})
            for span in shown["spans"]
        )
        return cls(shown["traceID"], tuple(entries))

    @property
    def spans(self) -> list[tuple[str, dict[str, Any]]]:
        """Names and attributes."""
        return [(name, tags) for _, name, tags in self.entries]

    @property
    def all_names(self) -> set[str]:
        """The names of its spans."""
        return {name for _, name, _ in self.entries}

    def names(self, service: str) -> set[str]:
        """The names of the spans that a service made."""
        return {name for maker, name, _ in self.entries if maker == service}
