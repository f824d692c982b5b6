"""What every record has: the join keys, and for a reading its status; beside them the encoding helpers."""

from dataclasses import dataclass
from typing import Self

from sandgauge_schemas import names
from sandgauge_schemas.attributes import Attributes, AttributeValue, text, whole

MAX_INDEXED = 256
"""Most components or sidecars read back from one span: a bound on what a forged count can cost."""

JOIN_KEYS = (
    names.NEMO_RUN_ID,
    names.NEMO_GYM_ROLLOUT_ID,
    names.NEMO_GYM_SANDBOX_REQUEST_ID,
    names.NEMO_GYM_SANDBOX_ID,
    names.NEMO_GYM_SANDBOX_PROVIDER,
)
"""Attributes that JoinKeys is read from."""


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
        return present(
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
class ReadingStatus:
    """Whether a read gave numbers, from which source, and why not."""

    source: str
    error_type: str | None = None

    def to_attributes(self) -> dict[str, AttributeValue]:
        """Return status, source and, when unavailable, the error type."""
        ok = self.error_type is None
        return present(
            {
                names.NEMO_GYM_SANDBOX_RESOURCE_STATUS: names.ResourceStatus.OK
                if ok
                else names.ResourceStatus.UNAVAILABLE,
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


def present(candidates: dict[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Return the entries whose value is known."""
    return {key: value for key, value in candidates.items() if value is not None}


def double(value: float | None) -> float | None:
    """Return the value as a double; None stays None."""
    return None if value is None else float(value)


def indexed(attributes: Attributes, count_key: str) -> int:
    """Return how many indexed entries to read back, within the bound."""
    return min(max(whole(attributes, count_key) or 0, 0), MAX_INDEXED)
