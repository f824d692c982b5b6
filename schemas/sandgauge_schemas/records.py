"""One frozen record for each span kind of the contract; each goes to attributes and comes back equal.

Reading is tolerant, since spans come from anywhere: an attribute of the wrong type counts as absent.
"""

from dataclasses import dataclass, field
from typing import Self

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, flag, number, text, texts, whole
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.resources import SandboxResourceAmounts

MAX_INDEXED = 256
"""Most components or sidecars read back from one span: a bound on what a forged count can cost."""

_REQUESTED = names.NEMO_GYM_SANDBOX_REQUESTED_CPU.removesuffix(".cpu")
_SUBMITTED_REQUESTS = names.NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS_CPU.removesuffix(".cpu")
_SUBMITTED_LIMITS = names.NEMO_GYM_SANDBOX_SUBMITTED_LIMITS_CPU.removesuffix(".cpu")
_DESIGNATOR = names.NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_KIND.removesuffix(".kind")
_HOST = names.NEMO_GYM_SANDBOX_ALLOCATION_HOST_KIND.removesuffix(".kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinKeys:
    """What joins a record to its rollout; each None until it is known."""

    run_id: str | None = None
    rollout_id: str | None = None
    request_id: str | None = None
    sandbox_id: str | None = None
    provider: str | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the keys that are known."""
        return _present(
            {
                names.NEMO_RUN_ID: self.run_id,
                names.NEMO_GYM_ROLLOUT_ID: self.rollout_id,
                names.NEMO_GYM_SANDBOX_REQUEST_ID: self.request_id,
                names.NEMO_GYM_SANDBOX_ID: self.sandbox_id,
                names.NEMO_GYM_SANDBOX_PROVIDER: self.provider,
            }
        )

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read the keys; an empty one is absent."""
        return cls(
            run_id=text(attributes, names.NEMO_RUN_ID),
            rollout_id=text(attributes, names.NEMO_GYM_ROLLOUT_ID),
            request_id=text(attributes, names.NEMO_GYM_SANDBOX_REQUEST_ID),
            sandbox_id=text(attributes, names.NEMO_GYM_SANDBOX_ID),
            provider=text(attributes, names.NEMO_GYM_SANDBOX_PROVIDER),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A container that a framework declares inside one sandbox, beside the main shape."""

    name: str | None
    resources: SandboxResourceAmounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """`gym.sandbox.request`: one logical wish for `count` sandboxes, whatever the provider retries."""

    keys: JoinKeys
    count: int = 1
    requested: SandboxResourceAmounts = SandboxResourceAmounts()
    sidecars: tuple[Sidecar, ...] = ()
    collection_id: str | None = None
    service_name: str | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes; sidecars are never added to the main shape."""
        attributes = self.keys.to_attributes()
        attributes[names.NEMO_GYM_SANDBOX_REQUESTED_COUNT] = self.count
        attributes |= self.requested.to_attributes(_REQUESTED)
        attributes |= _present(
            {
                names.NEMO_GYM_SANDBOX_COLLECTION_ID: self.collection_id,
                names.NEMO_GYM_SANDBOX_SERVICE_NAME: self.service_name,
            }
        )
        if self.sidecars:
            attributes[names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT] = len(self.sidecars)
        for index, sidecar in enumerate(self.sidecars):
            prefix = f"{names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR}.{index}"
            attributes |= _present({f"{prefix}.name": sidecar.name})
            attributes |= sidecar.resources.to_attributes(prefix)
        return attributes

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a request span's attributes."""
        sidecars = []
        for index in range(_indexed(attributes, names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT)):
            prefix = f"{names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR}.{index}"
            resources = SandboxResourceAmounts.from_attributes(attributes, prefix)
            sidecars.append(Sidecar(name=text(attributes, f"{prefix}.name"), resources=resources))
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            count=max(1, whole(attributes, names.NEMO_GYM_SANDBOX_REQUESTED_COUNT) or 1),
            requested=SandboxResourceAmounts.from_attributes(attributes, _REQUESTED),
            sidecars=tuple(sidecars),
            collection_id=text(attributes, names.NEMO_GYM_SANDBOX_COLLECTION_ID),
            service_name=text(attributes, names.NEMO_GYM_SANDBOX_SERVICE_NAME),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What the provider client sent after clamping; what it left to its SDK's default stays absent."""

    requests: SandboxResourceAmounts = SandboxResourceAmounts()
    limits: SandboxResourceAmounts = SandboxResourceAmounts()
    sdk_default: bool | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return `submitted.*`."""
        return {
            **self.requests.to_attributes(_SUBMITTED_REQUESTS),
            **self.limits.to_attributes(_SUBMITTED_LIMITS),
            **_present({names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT: self.sdk_default}),
        }

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read `submitted.*`."""
        return cls(
            requests=SandboxResourceAmounts.from_attributes(attributes, _SUBMITTED_REQUESTS),
            limits=SandboxResourceAmounts.from_attributes(attributes, _SUBMITTED_LIMITS),
            sdk_default=flag(attributes, names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """`gym.sandbox.start`: joins a request to a sandbox; without a sandbox id it means 'not created'.

    `sample_interval_s` is the interval in seconds that the run's own configuration asked for.
    """

    keys: JoinKeys
    submission: Submission = Submission()
    scope: str | None = None
    sample_interval_s: float | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes."""
        return {
            **self.keys.to_attributes(),
            **self.submission.to_attributes(),
            **_present(
                {
                    names.NEMO_GYM_SANDBOX_SCOPE: self.scope,
                    names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: _double(self.sample_interval_s),
                }
            ),
        }

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a start span's attributes; a negative interval is absent."""
        interval = number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S)
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            submission=Submission.from_attributes(attributes),
            scope=text(attributes, names.NEMO_GYM_SANDBOX_SCOPE),
            sample_interval_s=interval if interval is not None and interval >= 0 else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentAllocation:
    """What is in force for one container of a sandbox."""

    name: str
    requests: SandboxResourceAmounts = SandboxResourceAmounts()
    limits: SandboxResourceAmounts = SandboxResourceAmounts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What the control plane says is in force: components in its own order, notes, placement."""

    components: tuple[ComponentAllocation, ...] = ()
    notes: tuple[str, ...] = ()
    designator: Identity | None = None
    host: Identity | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return `allocation.*`; without components there is no component count."""
        attributes: dict[str, AttributeValue] = {}
        if self.components:
            attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT] = len(self.components)
        for index, component in enumerate(self.components):
            prefix = f"{names.NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT}.{index}"
            attributes[f"{prefix}.name"] = component.name
            attributes |= component.requests.to_attributes(f"{prefix}.requests")
            attributes |= component.limits.to_attributes(f"{prefix}.limits")
        if self.notes:
            attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_NOTE] = self.notes
        return attributes | _identity(_DESIGNATOR, self.designator) | _identity(_HOST, self.host)

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read `allocation.*`."""
        components = []
        for index in range(_indexed(attributes, names.NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT_COUNT)):
            prefix = f"{names.NEMO_GYM_SANDBOX_ALLOCATION_COMPONENT}.{index}"
            components.append(
                ComponentAllocation(
                    name=text(attributes, f"{prefix}.name") or "",
                    requests=SandboxResourceAmounts.from_attributes(attributes, f"{prefix}.requests"),
                    limits=SandboxResourceAmounts.from_attributes(attributes, f"{prefix}.limits"),
                )
            )
        return cls(
            components=tuple(components),
            notes=texts(attributes, names.NEMO_GYM_SANDBOX_ALLOCATION_NOTE),
            designator=_read_identity(attributes, _DESIGNATOR),
            host=_read_identity(attributes, _HOST),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingStatus:
    """Whether a read gave numbers, from which source, and why not."""

    source: str
    error_type: str | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return status, source and, when unavailable, the error type."""
        ok = self.error_type is None
        return _present(
            {
                names.NEMO_GYM_SANDBOX_RESOURCE_STATUS: names.ResourceStatus.OK if ok else names.ResourceStatus.UNAVAILABLE,
                names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE: self.source,
                names.ERROR_TYPE: self.error_type,
            }
        )

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read status, source and error type."""
        unavailable = text(attributes, names.NEMO_GYM_SANDBOX_RESOURCE_STATUS) != names.ResourceStatus.OK
        error_type = text(attributes, names.ERROR_TYPE)
        return cls(
            source=text(attributes, names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE) or "",
            error_type=(error_type or names.ErrorType.NO_READING) if unavailable else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRecord:
    """`gym.sandbox.resource.allocation`: allocation and placement; placement also when quantities are unavailable."""

    keys: JoinKeys
    status: ReadingStatus
    allocation: Allocation = Allocation()

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes."""
        return self.keys.to_attributes() | self.status.to_attributes() | self.allocation.to_attributes()

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read an allocation span's attributes."""
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            status=ReadingStatus.from_attributes(attributes),
            allocation=Allocation.from_attributes(attributes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRecord:
    """`gym.sandbox.resource.sample`: one instantaneous reading by execd, or one failed read without numbers.

    `timestamp_ms` is the daemon's own; `cpu_used_percentage` 0..100 of what the daemon sees; memory in MiB.
    A scope says whose machine a number describes, its evidence why.
    """

    keys: JoinKeys
    status: ReadingStatus
    timestamp_ms: int | None = None
    cpu_count: float | None = None
    cpu_used_percentage: float | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    cpu_scope: str | None = None
    cpu_scope_evidence: str | None = None
    memory_scope: str | None = None
    memory_scope_evidence: str | None = None
    final: bool | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes."""
        return {
            **self.keys.to_attributes(),
            **self.status.to_attributes(),
            **_present(
                {
                    names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS: self.timestamp_ms,
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT: _double(self.cpu_count),
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE: _double(self.cpu_used_percentage),
                    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB: _double(self.memory_total_mib),
                    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB: _double(self.memory_used_mib),
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE: self.cpu_scope,
                    names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE_EVIDENCE: self.cpu_scope_evidence,
                    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE: self.memory_scope,
                    names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE: self.memory_scope_evidence,
                    names.NEMO_GYM_SANDBOX_SAMPLE_FINAL: self.final,
                }
            ),
        }

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a sample span's attributes."""
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            status=ReadingStatus.from_attributes(attributes),
            timestamp_ms=whole(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS),
            cpu_count=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_COUNT),
            cpu_used_percentage=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_PERCENTAGE),
            memory_total_mib=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_TOTAL_MIB),
            memory_used_mib=number(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB),
            cpu_scope=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE),
            cpu_scope_evidence=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE_EVIDENCE),
            memory_scope=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE),
            memory_scope_evidence=text(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE),
            final=flag(attributes, names.NEMO_GYM_SANDBOX_SAMPLE_FINAL),
        )


@dataclass(frozen=True, slots=True)
class Statistics:
    """Minimum, mean, maximum and last of one quantity over a sandbox's readings."""

    min: float
    mean: float
    max: float
    last: float

    def to_attributes(self, prefix: str) -> dict[str, AttributeValue]:
        """Return `<prefix>.min`, `.mean`, `.max` and `.last` as doubles."""
        return {f"{prefix}.{key}": float(getattr(self, key)) for key in ("min", "mean", "max", "last")}

    @classmethod
    def from_attributes(cls, attributes: Attributes, prefix: str) -> Self | None:
        """Read the four numbers; None unless all are there."""
        values = [number(attributes, f"{prefix}.{key}") for key in ("min", "mean", "max", "last")]
        present = [value for value in values if value is not None]
        return cls(*present) if len(present) == len(values) else None


SUMMARY_PREFIX = names.NEMO_GYM_SANDBOX_SUMMARY_CPU_COUNT_MIN.removesuffix(".cpu_count.min")
SUMMARY_QUANTITIES = ("cpu_used_percentage", "memory_used_mib", "memory_total_mib", "cpu_count")
"""The quantities of execd's readings that a summary has statistics of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRecord:
    """`gym.sandbox.resource.summary`: how one sandbox lived and ended, with the other quantities echoed.

    `lifetime_s` runs from the end of the start span to the end as known; `statistics` by SUMMARY_QUANTITIES.
    """

    keys: JoinKeys
    end_reason: str
    leaked: bool
    oom_killed: bool | None = None
    lifetime_s: float | None = None
    readings_count: int = 0
    readings_missed: int = 0
    effective_interval_s: float | None = None
    statistics: dict[str, Statistics] = field(default_factory=dict)
    cpu_scope: str | None = None
    memory_scope: str | None = None
    resets: int = 0
    requested: SandboxResourceAmounts = SandboxResourceAmounts()
    submission: Submission = Submission()
    allocation: Allocation = Allocation()

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes."""
        attributes = self.keys.to_attributes()
        attributes |= _present(
            {
                names.NEMO_GYM_SANDBOX_END_REASON: self.end_reason,
                names.NEMO_GYM_SANDBOX_END_OOM_KILLED: self.oom_killed,
                names.NEMO_GYM_SANDBOX_LEAKED: self.leaked,
                names.NEMO_GYM_SANDBOX_LIFETIME_S: _double(self.lifetime_s),
                names.NEMO_GYM_SANDBOX_READINGS_COUNT: self.readings_count,
                names.NEMO_GYM_SANDBOX_READINGS_MISSED: self.readings_missed,
                names.NEMO_GYM_SANDBOX_READINGS_EFFECTIVE_INTERVAL_S: _double(self.effective_interval_s),
                names.NEMO_GYM_SANDBOX_SUMMARY_CPU_SCOPE: self.cpu_scope,
                names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_SCOPE: self.memory_scope,
                names.NEMO_GYM_SANDBOX_SUMMARY_RESETS: self.resets,
            }
        )
        for quantity, statistics in self.statistics.items():
            attributes |= statistics.to_attributes(f"{SUMMARY_PREFIX}.{quantity}")
        attributes |= self.requested.to_attributes(_REQUESTED)
        return attributes | self.submission.to_attributes() | self.allocation.to_attributes()

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a summary span's attributes."""
        statistics = {
            quantity: found
            for quantity in SUMMARY_QUANTITIES
            if (found := Statistics.from_attributes(attributes, f"{SUMMARY_PREFIX}.{quantity}")) is not None
        }
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            end_reason=text(attributes, names.NEMO_GYM_SANDBOX_END_REASON) or "",
            oom_killed=flag(attributes, names.NEMO_GYM_SANDBOX_END_OOM_KILLED),
            leaked=flag(attributes, names.NEMO_GYM_SANDBOX_LEAKED) or False,
            lifetime_s=number(attributes, names.NEMO_GYM_SANDBOX_LIFETIME_S),
            readings_count=whole(attributes, names.NEMO_GYM_SANDBOX_READINGS_COUNT) or 0,
            readings_missed=whole(attributes, names.NEMO_GYM_SANDBOX_READINGS_MISSED) or 0,
            effective_interval_s=number(attributes, names.NEMO_GYM_SANDBOX_READINGS_EFFECTIVE_INTERVAL_S),
            statistics=statistics,
            cpu_scope=text(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_CPU_SCOPE),
            memory_scope=text(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_SCOPE),
            resets=whole(attributes, names.NEMO_GYM_SANDBOX_SUMMARY_RESETS) or 0,
            requested=SandboxResourceAmounts.from_attributes(attributes, _REQUESTED),
            submission=Submission.from_attributes(attributes),
            allocation=Allocation.from_attributes(attributes),
        )


def _present(candidates: dict[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    return {key: value for key, value in candidates.items() if value is not None}


def _double(value: float | None) -> float | None:
    return None if value is None else float(value)


def _indexed(attributes: Attributes, count_key: str) -> int:
    return min(max(whole(attributes, count_key) or 0, 0), MAX_INDEXED)


def _identity(prefix: str, identity: Identity | None) -> dict[str, AttributeValue]:
    if identity is None:
        return {}
    return {f"{prefix}.kind": identity.kind, f"{prefix}.scope": identity.scope, f"{prefix}.id": identity.id}


def _read_identity(attributes: Attributes, prefix: str) -> Identity | None:
    kind, scope, id_ = (text(attributes, f"{prefix}.{part}") for part in ("kind", "scope", "id"))
    return Identity(kind, scope, id_) if kind and scope and id_ else None
