"""What the spans so far say of one sandbox; its size does not grow with their number."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sandgauge_report.merging.distinct import DistinctReadings, hash_of
from sandgauge_report.merging.first import First
from sandgauge_report.merging.quantities import SAMPLED, SeriesKey
from sandgauge_report.reading.otlp import Span
from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, number, text, whole
from sandgauge_schemas.names import ResourceStatus, SampleScope
from sandgauge_schemas.records import AllocationRecord, ReadingStatus, StartRecord, SummaryRecord

_NEVER = 2**64
_BY_START, _BY_SUMMARY, _BY_OTHERS = 0, 1, 2
"""Whose word on a join key counts first."""

_SCOPES = {str(scope): scope for scope in SampleScope}
_OK: str = ResourceStatus.OK
_KEYS = (names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID, names.NEMO_GYM_SANDBOX_REQUEST_ID, names.NEMO_GYM_SERVER_NAME)


class Start(NamedTuple):
    """A start span; times are ns since the epoch, 0 where none is given."""

    record: StartRecord
    start_ns: int
    end_ns: int


class MemoryTotal(NamedTuple):
    """The largest memory total that readings of one scope showed, in MiB, and by what their scope was known."""

    mib: float
    evidence: str


@dataclass(slots=True)
class SandboxState:
    """One sandbox. Everything is chosen by rank, or counted once for each span id."""

    start: First[Start] = field(default_factory=First)
    """The earliest."""
    keys: dict[str, First[str]] = field(default_factory=lambda: {key: First() for key in _KEYS})
    trace_id: First[str] = field(default_factory=First)
    stop_ns: First[int] = field(default_factory=First)
    """When the last stop that succeeded was over."""
    allocation: First[AllocationRecord] = field(default_factory=First)
    """The last that has quantities."""
    unallocated: First[AllocationRecord] = field(default_factory=First)
    """The last that has none."""
    summary: First[SummaryRecord] = field(default_factory=First)
    """The last."""
    readings: dict[SeriesKey, DistinctReadings] = field(default_factory=dict)
    failures: dict[ReadingStatus, DistinctReadings] = field(default_factory=dict)
    memory_totals: dict[SampleScope, MemoryTotal] = field(default_factory=dict)
    oom_kills: int | None = None
    """The most that a usage source had counted."""

    @property
    def scope(self) -> str | None:
        """Control plane that its start span names."""
        return None if self.start.value is None else self.start.value.record.scope

    def add(self, span: Span) -> None:
        """Take a span that names this sandbox."""
        if span.name == names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE:
            self._add_sample(span)
            self._note_keys(span)
            return
        attributes, start_ns = span.attributes, span.start_ns
        earliest = (start_ns or _NEVER, span.trace_id, span.span_id)
        latest = (-start_ns, span.trace_id, span.span_id)
        match span.name:
            case names.SPAN_GYM_SANDBOX_START:
                self._note_keys(span, (_BY_START, *earliest))
                self.start.offer(earliest, Start(StartRecord.from_attributes(attributes), start_ns, span.end_ns))
            case names.SPAN_GYM_SANDBOX_STOP:
                self._note_keys(span)
                if not span.failed:
                    self.stop_ns.offer((-span.end_ns,), span.end_ns)
            case names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION:
                self._note_keys(span)
                record = AllocationRecord.from_attributes(attributes)
                kept = self.allocation if record.status.error_type is None else self.unallocated
                kept.offer(latest, record)
            case names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY:
                self._note_keys(span, (_BY_SUMMARY, *latest))
                self.summary.offer(latest, SummaryRecord.from_attributes(attributes))

    def _note_keys(self, span: Span, rank: tuple[Any, ...] | None = None) -> None:
        """Take the join keys; without a rank the lowest text wins, for of those that have one any is as good."""
        attributes = span.attributes
        for key, first in self.keys.items():
            value = attributes.get(key)
            if isinstance(value, str) and value and (rank or value != first.value):
                first.offer(rank or (_BY_OTHERS, value), value)
        trace_id = span.trace_id
        # A stop outside of any rollout is a trace of its own.
        if trace_id and span.name != names.SPAN_GYM_SANDBOX_STOP and (rank or trace_id != self.trace_id.value):
            self.trace_id.offer(rank or (_BY_OTHERS, trace_id), trace_id)

    def absorb(self, other: "SandboxState") -> None:
        """Take over what another has of the same sandbox."""
        for name in ("start", "trace_id", "stop_ns", "allocation", "unallocated", "summary"):
            getattr(self, name).absorb(getattr(other, name))
        for key, first in other.keys.items():
            self.keys[key].absorb(first)
        for series, readings in other.readings.items():
            self.readings.setdefault(series, DistinctReadings()).absorb(readings)
        for status, readings in other.failures.items():
            self.failures.setdefault(status, DistinctReadings()).absorb(readings)
        for scope, total in other.memory_totals.items():
            self._note_total(scope, total)
        if other.oom_kills is not None:
            self.oom_kills = max(self.oom_kills or 0, other.oom_kills)

    def _add_sample(self, span: Span) -> None:
        attributes = span.attributes
        hashed = hash_of(span.trace_id, span.span_id)
        if attributes.get(names.NEMO_GYM_SANDBOX_RESOURCE_STATUS) != _OK:
            status = ReadingStatus.from_attributes(attributes)
            if status not in self.failures:
                self.failures[status] = DistinctReadings()
            self.failures[status].add(hashed, span.start_ns, 0.0)
            return
        source = text(attributes, names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE) or ""
        for quantity, value_key, scope_key in SAMPLED:
            if value_key in attributes and (value := number(attributes, value_key)) is not None and value >= 0:
                key = SeriesKey(quantity, source, _scope(attributes, scope_key))
                readings = self.readings.get(key)
                if readings is None:
                    readings = self.readings[key] = DistinctReadings()
                readings.add(hashed, span.start_ns, value)
        if (total := number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB)) is not None:
            evidence = text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE) or ""
            scope = _scope(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE)
            self._note_total(scope, MemoryTotal(total, evidence))
        if (kills := whole(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_OOM_KILLS)) is not None:
            self.oom_kills = max(self.oom_kills or 0, kills)

    def _note_total(self, scope: SampleScope, total: MemoryTotal) -> None:
        known = self.memory_totals.get(scope)
        if known is None or total > known:
            self.memory_totals[scope] = total


def _scope(attributes: Attributes, key: str) -> SampleScope:
    said = attributes.get(key)
    return _SCOPES.get(said, SampleScope.UNKNOWN) if isinstance(said, str) else SampleScope.UNKNOWN
