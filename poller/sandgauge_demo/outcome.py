"""What a run's joined file says of each of its sandboxes: requested, submitted, allocated, sampled, and the end.

Lines of OTLP JSON in, rows out. The four quantities stay four: what no record says is None here.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, text
from sandgauge_schemas.records import AllocationRecord, JoinKeys, RequestRecord, StartRecord, SummaryRecord

Json = dict[str, Any]

# OpenTelemetry's own names of a failure, not of this project's contract.
_EXCEPTION, _EXCEPTION_TYPE = "exception", "exception.type"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOutcome:
    """One sandbox, or one that was not created; each record is None until the file has it."""

    request: RequestRecord
    start: StartRecord | None = None
    error_type: str | None = None
    """Why it was not created."""
    allocation: AllocationRecord | None = None
    summary: SummaryRecord | None = None

    @property
    def rollout_id(self) -> str | None:
        """The rollout that asked for it."""
        return self.request.keys.rollout_id

    @property
    def sandbox_id(self) -> str | None:
        """Its id; None where it was not created, or is not there yet."""
        return None if self.start is None else self.start.keys.sandbox_id

    @property
    def was_refused(self) -> bool:
        """Whether its creation failed."""
        return self.start is not None and self.sandbox_id is None

    @property
    def is_settled(self) -> bool:
        """Whether nothing more is to come."""
        return self.was_refused or self.summary is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Sandboxes in the order in which they were asked for, rollout by rollout; and how far the run is."""

    sandboxes: tuple[SandboxOutcome, ...] = ()
    rollouts_ended: int = 0
    readings: int = 0


def read_outcome(lines: Iterable[str]) -> Outcome:
    """Read a joined file of one run. A last line that is still being written is left for the next time."""
    records = _Records()
    for line in lines:
        if line.endswith("\n"):
            for span, attributes in _spans(json.loads(line)):
                records.add(span, attributes)
    return records.outcome()


@dataclass(slots=True)
class _Records:
    """The records of a run by what joins them; a span that comes twice takes its own place again."""

    requests: dict[str | None, tuple[int, RequestRecord]] = field(default_factory=dict)
    starts: dict[str | None, dict[str, tuple[StartRecord, str | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    allocations: dict[str | None, AllocationRecord] = field(default_factory=dict)
    summaries: dict[str | None, SummaryRecord] = field(default_factory=dict)
    rollouts: set[str | None] = field(default_factory=set)
    samples: set[str] = field(default_factory=set)

    def add(self, span: Json, attributes: Attributes) -> None:
        """File one span under its keys."""
        keys = JoinKeys.from_attributes(attributes)
        match span["name"]:
            case names.SPAN_GYM_SANDBOX_REQUEST:
                self.requests[keys.request_id] = (_start_ns(span), RequestRecord.from_attributes(attributes))
            case names.SPAN_GYM_SANDBOX_START:
                start = (StartRecord.from_attributes(attributes), _error_type(span))
                self.starts[keys.request_id][span["spanId"]] = start
            case names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION:
                self.allocations[keys.sandbox_id] = AllocationRecord.from_attributes(attributes)
            case names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE:
                self.samples.add(span["spanId"])
            case names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY:
                self.summaries[keys.sandbox_id] = SummaryRecord.from_attributes(attributes)
            case names.SPAN_GYM_ROLLOUT:
                self.rollouts.add(keys.rollout_id)

    def outcome(self) -> Outcome:
        """Join what is there."""
        requests = sorted(self.requests.values(), key=lambda request: request[0])
        begun: dict[str | None, int] = {}
        for start_ns, request in requests:
            begun.setdefault(request.keys.rollout_id, start_ns)
        requests.sort(key=lambda request: (begun[request[1].keys.rollout_id], request[0]))
        return Outcome(
            sandboxes=tuple(row for _, request in requests for row in self._rows(request)),
            rollouts_ended=len(self.rollouts),
            readings=len(self.samples),
        )

    def _rows(self, request: RequestRecord) -> Iterator[SandboxOutcome]:
        """Yield a row for each sandbox of a request, whether its start is there yet or not."""
        starts = list(self.starts[request.keys.request_id].values())
        for start, error_type in starts:
            sandbox_id = start.keys.sandbox_id
            yield SandboxOutcome(
                request=request,
                start=start,
                error_type=error_type,
                allocation=None if sandbox_id is None else self.allocations.get(sandbox_id),
                summary=None if sandbox_id is None else self.summaries.get(sandbox_id),
            )
        for _ in range(request.count - len(starts)):
            yield SandboxOutcome(request=request)


def _spans(line: Json) -> Iterator[tuple[Json, Attributes]]:
    for group in line["resourceSpans"]:
        shared = _plain(group["resource"].get("attributes", ()))
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                yield span, {**shared, **_plain(span.get("attributes", ()))}


def _plain(attributes: Iterable[Json]) -> dict[str, AttributeValue]:
    return {attribute["key"]: _value(attribute["value"]) for attribute in attributes}


def _value(value: Json) -> AttributeValue:
    """Return a value as Python has it; OTLP/JSON writes 64-bit numbers as text."""
    ((kind, content),) = value.items()
    match kind:
        case "intValue":
            return int(content)
        case "doubleValue":
            return float(content)
        case "arrayValue":
            return tuple(str(_value(one)) for one in content.get("values", ()))
    plain: str | bool = content
    return plain


def _error_type(span: Json) -> str | None:
    """Return why a span failed: its exception event says it."""
    events = (_plain(event.get("attributes", ())) for event in span.get("events", ()) if event["name"] == _EXCEPTION)
    return next((text(event, _EXCEPTION_TYPE) for event in events), None)


def _start_ns(span: Json) -> int:
    return int(span["startTimeUnixNano"])
