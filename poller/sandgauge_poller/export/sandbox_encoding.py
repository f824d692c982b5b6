"""What of a sandbox's records is the same from one reading to the next, encoded once."""

from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from sandgauge_poller.export.messages import SeriesAttributes, identity, span_ids, span_kind
from sandgauge_poller.export.wire import encode_attributes
from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.progress import Progress, ScopeDecision
from sandgauge_schemas import names
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
    """What several spans of a sandbox have in common: how their bytes begin, and what their ids are made of.

    Of either the second half is the same for many sandboxes, which share it.
    """

    encoded: tuple[bytes, bytes]
    identity: tuple[bytes, bytes]


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

    def head(self, name: str, source: ResourceSource | None) -> Head:
        """Return what its spans of that name and source have in common, which is no attribute."""
        return Head((span_ids(self.start.trace_id, self.start.span_id), span_kind(name)), self._identity(name, source))

    def sample_head(self, progress: Progress, source: ResourceSource) -> Head:
        """Return how a good reading's span begins: everything but its own times and numbers."""
        cpu, memory, known = progress.cpu, progress.memory, self._sample_head
        if known is None or known.cpu is not cpu or known.memory is not memory or known.source is not source:
            own = span_ids(self.start.trace_id, self.start.span_id) + encode_attributes(Span, self.keys.to_attributes())
            name = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
            head = Head((own, _shared_by_samples(cpu, memory, source)), self._identity(name, source))
            known = self._sample_head = _SampleHead(cpu, memory, source, head)
        return known.head

    def _identity(self, name: str, source: ResourceSource | None) -> tuple[bytes, bytes]:
        own = identity(self.start.trace_id, self.key.owner.encode(), self.key.sandbox_id.encode())
        return own, _identity_of_kind(name, source)


@cache
def _identity_of_kind(name: str, source: ResourceSource | None) -> bytes:
    return identity(name.encode(), (source or "").encode())


@lru_cache(maxsize=256)
def _shared_by_samples(cpu: ScopeDecision | None, memory: ScopeDecision | None, source: ResourceSource) -> bytes:
    record = SampleRecord(
        keys=JoinKeys(),
        status=ReadingStatus(source=source),
        cpu_scope=cpu.scope if cpu else None,
        cpu_scope_evidence=cpu.evidence if cpu else None,
        memory_scope=memory.scope if memory else None,
        memory_scope_evidence=memory.evidence if memory else None,
    )
    return span_kind(names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE) + encode_attributes(Span, record.to_attributes())


def encoding_of(sandbox: Tracked, settings: PointSettings) -> SandboxEncoding:
    """Return a sandbox's encoding as of now; raises ValueError for one without a start span."""
    start, keys = sandbox.lifecycle.start, sandbox.keys
    if start is None:
        raise ValueError("a sandbox without a start span has no records")
    return SandboxEncoding(settings, sandbox.key, keys, start)
