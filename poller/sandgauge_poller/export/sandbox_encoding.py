"""What of a sandbox's records is the same from one reading to the next, encoded once."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sandgauge_poller.export.messages import SeriesAttributes, span_head, span_identity
from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.progress import Progress, ScopeDecision
from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes
from sandgauge_schemas.names import ResourceSource, SampleScope
from sandgauge_schemas.records import JoinKeys, ReadingStatus, SampleRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSettings:
    """Which points are made, and how far a source's clock may be off the reading's window (ns)."""

    metrics: bool
    rollout_id: bool
    request_id: bool
    max_clock_skew_ns: int


class Head(NamedTuple):
    """What several spans of a sandbox have in common: how their bytes begin, and what their ids are made of."""

    encoded: bytes
    identity: bytes


class _SampleHead(NamedTuple):
    cpu: ScopeDecision | None
    memory: ScopeDecision | None
    source: ResourceSource
    head: Head


@dataclass(slots=True)
class SandboxEncoding:
    """Of one sandbox, as long as its start span and its keys are these."""

    settings: PointSettings
    key: SandboxKey
    keys: JoinKeys
    start: StartEvent
    _series: dict[SampleScope | None, SeriesAttributes] = field(default_factory=dict)
    _sample_head: _SampleHead | None = None

    def series(self, scope: SampleScope | None) -> SeriesAttributes:
        """Return the attributes of its series of that scope."""
        found = self._series.get(scope)
        if found is None:
            scoped = {} if scope is None else {names.NEMO_GYM_SANDBOX_SAMPLE_SCOPE: scope.value}
            found = self._series[scope] = SeriesAttributes({**self._series_keys(), **scoped})
        return found

    def _series_keys(self) -> dict[str, str]:
        keys, settings = self.keys, self.settings
        of_points = replace(
            keys,
            rollout_id=keys.rollout_id if settings.rollout_id else None,
            request_id=keys.request_id if settings.request_id else None,
        )
        return {key: str(value) for key, value in of_points.to_attributes().items()}

    def head(self, name: str, source: ResourceSource | None, attributes: Attributes) -> Head:
        """Return what its spans of that name and source with these attributes have in common."""
        start = self.start
        encoded = span_head(name=name, trace_id=start.trace_id, parent_span_id=start.span_id, attributes=attributes)
        identity = span_identity(
            trace_id=start.trace_id,
            deployment=self.key.owner,
            sandbox_id=self.key.sandbox_id,
            span_name=name,
            source=source or "",
        )
        return Head(encoded, identity)

    def sample_head(self, progress: Progress, source: ResourceSource) -> Head:
        """Return how a good reading's span begins: everything but its own times and numbers."""
        cpu, memory, head = progress.cpu, progress.memory, self._sample_head
        if head is None or head.cpu is not cpu or head.memory is not memory or head.source is not source:
            record = SampleRecord(
                keys=self.keys,
                status=ReadingStatus(source=source),
                cpu_scope=cpu.scope if cpu else None,
                cpu_scope_evidence=cpu.evidence if cpu else None,
                memory_scope=memory.scope if memory else None,
                memory_scope_evidence=memory.evidence if memory else None,
            )
            common = self.head(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, source, record.to_attributes())
            head = self._sample_head = _SampleHead(cpu, memory, source, common)
        return head.head


def encoding_of(sandbox: Tracked, settings: PointSettings) -> SandboxEncoding:
    """Return a sandbox's encoding as of now; raises ValueError for one without a start span."""
    start, keys = sandbox.lifecycle.start, sandbox.keys
    if start is None:
        raise ValueError("a sandbox without a start span has no records")
    return SandboxEncoding(settings, sandbox.key, keys, start)
