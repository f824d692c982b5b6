"""Every sandbox, request and rollout that the spans speak of, by the ids that join them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from sandgauge_report.merging.first import First
from sandgauge_report.merging.sandbox_state import SandboxState
from sandgauge_report.reading.otlp import Span
from sandgauge_schemas import names
from sandgauge_schemas.attributes import text
from sandgauge_schemas.records import JoinKeys, RequestRecord, StartRecord

_NEVER = 2**64

_OF_THE_POLLER = frozenset(
    {
        names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
        names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
        names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    }
)

SpanKey = tuple[str, str]
"""Trace id and span id."""

RolloutKey = tuple[str, str]
"""Run id, or where there is none the trace id; and rollout id."""


class SandboxKey(NamedTuple):
    """Provider, empty where a span did not name it; sandbox id; and trace id."""

    provider: str
    sandbox_id: str
    trace_id: str


class FailedStart(NamedTuple):
    """A start span without a sandbox id: one was not created, and perhaps it says why."""

    record: StartRecord
    start_ns: int
    trace_id: str
    error_type: str | None


class Wish(NamedTuple):
    """A request span."""

    record: RequestRecord
    start_ns: int
    trace_id: str


@dataclass(slots=True)
class RequestState:
    """One logical request, and what failed of it."""

    wish: First[Wish] = field(default_factory=First)
    failed: dict[SpanKey, First[FailedStart]] = field(default_factory=dict)


@dataclass(slots=True)
class Inventory:
    """The state of the whole input; it grows with sandboxes and rollouts, and not with their readings."""

    sandboxes: dict[SandboxKey, SandboxState] = field(default_factory=dict)
    """What one trace says of one id; which of these are one sandbox is known at the end."""
    requests: dict[str, RequestState] = field(default_factory=dict)
    failed_starts: dict[SpanKey, First[FailedStart]] = field(default_factory=dict)
    """Those of no request that is known: stock Gym's."""
    rollouts_of_trace: dict[str, set[tuple[str | None, str]]] = field(default_factory=dict)
    """Run and rollout ids by the trace of the rollout span."""
    rollout_ends: dict[RolloutKey, int] = field(default_factory=dict)
    """When a rollout's span was over, in ns since the epoch."""
    newest_ns: int = 0
    """When the last span of all ended."""
    has_poller_records: bool = False

    def add(self, span: Span) -> None:
        """Take one span; one that came before changes nothing."""
        attributes = span.attributes
        self.newest_ns = max(self.newest_ns, span.end_ns)
        sandbox_id = text(attributes, names.NEMO_GYM_SANDBOX_ID)
        if span.name in _OF_THE_POLLER:
            self.has_poller_records = True
        if span.name == names.SPAN_GYM_ROLLOUT:
            self._add_rollout(span)
        elif span.name == names.SPAN_GYM_SANDBOX_REQUEST:
            self._add_request(span)
        elif sandbox_id is not None:
            provider = text(attributes, names.NEMO_GYM_SANDBOX_PROVIDER) or ""
            key = SandboxKey(provider, sandbox_id, span.trace_id)
            state = self.sandboxes.get(key)
            if state is None:
                state = self.sandboxes[key] = SandboxState()
            state.add(span)
        elif span.name == names.SPAN_GYM_SANDBOX_START:
            self._add_failed_start(span)

    def _add_rollout(self, span: Span) -> None:
        keys = JoinKeys.from_attributes(span.attributes)
        if keys.rollout_id is None:
            return
        if span.trace_id:
            self.rollouts_of_trace.setdefault(span.trace_id, set()).add((keys.run_id, keys.rollout_id))
        key = (keys.run_id or span.trace_id, keys.rollout_id)
        self.rollout_ends[key] = max(self.rollout_ends.get(key, 0), span.end_ns)

    def _add_request(self, span: Span) -> None:
        record = RequestRecord.from_attributes(span.attributes)
        # A request without an id can be joined to nothing; its span is then what it is known by.
        request = self.requests.setdefault(record.keys.request_id or f"{span.trace_id} {span.span_id}", RequestState())
        request.wish.offer(_earliest(span), Wish(record, span.start_ns, span.trace_id))

    def _add_failed_start(self, span: Span) -> None:
        record = StartRecord.from_attributes(span.attributes)
        request_id = record.keys.request_id
        request = None if request_id is None else self.requests.setdefault(request_id, RequestState())
        failed = self.failed_starts if request is None else request.failed
        first = failed.setdefault((span.trace_id, span.span_id), First())
        first.offer(_earliest(span), FailedStart(record, span.start_ns, span.trace_id, span.error_type))


def _earliest(span: Span) -> tuple[int, str, str]:
    return (span.start_ns or _NEVER, span.trace_id, span.span_id)
