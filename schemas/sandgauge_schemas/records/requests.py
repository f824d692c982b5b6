"""What was requested and what was submitted: the two spans that the emitter's side makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, flag, number, text, whole
from sandgauge_schemas.records.keys import JOIN_KEYS, MAX_INDEXED, JoinKeys, double, indexed, present
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources, resource_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A container that a framework declares inside one sandbox, beside the main shape."""

    name: str | None
    resources: SandboxResources


_UNDECLARED = Sidecar(name=None, resources=SandboxResources())
"""A sidecar of which nothing is known; there may be a great many."""

_SIDECAR_OF_KEY = {
    key: index
    for index in range(MAX_INDEXED)
    for key in (names.requested_sidecar_name(index), *resource_keys(names.requested_sidecar_prefix(index)))
}


def sidecar_attributes(sidecars: Sequence[Sidecar]) -> dict[str, AttributeValue]:
    """Return `requested.sidecar_count` and `requested.sidecar.<i>.*`; nothing without sidecars."""
    attributes: dict[str, AttributeValue] = {}
    if sidecars:
        attributes[names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT] = len(sidecars)
    for index, sidecar in enumerate(sidecars):
        if sidecar is not _UNDECLARED:
            attributes |= present({names.requested_sidecar_name(index): sidecar.name})
            attributes |= sidecar.resources.to_attributes(names.requested_sidecar_prefix(index))
    return attributes


def read_sidecars(attributes: Attributes) -> tuple[Sidecar, ...]:
    """Read the sidecars back, at most as many as the bound allows; the cost is that of what is there."""
    count = indexed(attributes, names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT)
    if not count:
        return ()
    sidecars = [_UNDECLARED] * count
    for index in {_SIDECAR_OF_KEY.get(key, count) for key in attributes}:
        if index < count:
            resources = SandboxResources.from_attributes(attributes, names.requested_sidecar_prefix(index))
            sidecars[index] = Sidecar(name=text(attributes, names.requested_sidecar_name(index)), resources=resources)
    return tuple(sidecars)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """`gym.sandbox.request`: one logical wish for `count` sandboxes, whatever the provider retries."""

    keys: JoinKeys
    count: int = 1
    requested: SandboxResources = SandboxResources()
    sidecars: tuple[Sidecar, ...] = ()
    collection_id: str | None = None
    service_name: str | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes; sidecars are never added to the main shape."""
        attributes = self.keys.to_attributes()
        attributes[names.NEMO_GYM_SANDBOX_REQUESTED_COUNT] = self.count
        attributes |= self.requested.to_attributes(names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED)
        attributes |= present(
            {
                names.NEMO_GYM_SANDBOX_COLLECTION_ID: self.collection_id,
                names.NEMO_GYM_SANDBOX_SERVICE_NAME: self.service_name,
            }
        )
        return attributes | sidecar_attributes(self.sidecars)

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read a request span's attributes."""
        return cls(
            keys=JoinKeys.from_attributes(attributes),
            count=max(1, whole(attributes, names.NEMO_GYM_SANDBOX_REQUESTED_COUNT) or 1),
            requested=SandboxResources.from_attributes(attributes, names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED),
            sidecars=read_sidecars(attributes),
            collection_id=text(attributes, names.NEMO_GYM_SANDBOX_COLLECTION_ID),
            service_name=text(attributes, names.NEMO_GYM_SANDBOX_SERVICE_NAME),
        )


_SUBMITTED_KEYS = frozenset(
    {
        names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT,
        *resource_keys(names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS),
        *resource_keys(names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS),
    }
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
            **self.requests.to_attributes(names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS),
            **self.limits.to_attributes(names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS),
            **present({names.NEMO_GYM_SANDBOX_SUBMITTED_SDK_DEFAULT: self.sdk_default}),
        }

    @classmethod
    def from_attributes(cls, attributes: Attributes) -> Self:
        """Read `submitted.*`."""
        if attributes.keys().isdisjoint(_SUBMITTED_KEYS):  # nearly all of stock Gym's, of which many come at once
            return cls()
        return cls(
            requests=SandboxResourceAmounts.from_attributes(
                attributes, names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_REQUESTS
            ),
            limits=SandboxResourceAmounts.from_attributes(attributes, names.PREFIX_NEMO_GYM_SANDBOX_SUBMITTED_LIMITS),
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
            **present(
                {
                    names.NEMO_GYM_SANDBOX_SCOPE: self.scope,
                    names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: double(self.sample_interval_s),
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


REQUEST_KEYS = frozenset(
    {
        *JOIN_KEYS,
        names.NEMO_GYM_SANDBOX_REQUESTED_COUNT,
        names.NEMO_GYM_SANDBOX_REQUESTED_SIDECAR_COUNT,
        names.NEMO_GYM_SANDBOX_COLLECTION_ID,
        names.NEMO_GYM_SANDBOX_SERVICE_NAME,
        *resource_keys(names.PREFIX_NEMO_GYM_SANDBOX_REQUESTED),
        *_SIDECAR_OF_KEY,
    }
)
"""Attributes that a RequestRecord is read from."""

START_KEYS = frozenset(
    {*JOIN_KEYS, *_SUBMITTED_KEYS, names.NEMO_GYM_SANDBOX_SCOPE, names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S}
)
"""Attributes that a StartRecord is read from."""
