"""The inventory: one `gym.sandbox.request` for each wish, with what is known of its rollout at that moment."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from opentelemetry.context import Context, get_current

from sandgauge_emitter import inputs, spans, tracing
from sandgauge_emitter.faults import FAULTS
from sandgauge_schemas.records import JoinKeys, RequestRecord
from sandgauge_schemas.resources import RESOURCE_KEYS, SandboxResources

_ROLLOUTS = "nemo_gym.rollout_correlation"


class Record(Protocol):
    """`record_request` of a provider, on an occasion."""

    def __call__(self, resources: object, *, collection_id: object = None, service_name: object = None) -> JoinKeys:
        """Record one request and return its keys."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """When a sandbox was asked for, in ns since the epoch, and within what."""

    context: Context = field(default_factory=get_current)
    at_ns: int = field(default_factory=time.time_ns)


def record_request(
    provider: object,
    occasion: Occasion,
    resources: object,
    *,
    collection_id: object = None,
    service_name: object = None,
) -> JoinKeys:
    """Record a request in the trace of its occasion and return its keys.

    `resources` is Gym's `SandboxResources`, or a mapping of its fields.
    """
    keys = current_keys(provider, request_id=inputs.new_id())
    record = RequestRecord(
        keys=keys,
        requested=_requested(resources),
        collection_id=inputs.text(collection_id, "collection_id", complain),
        service_name=inputs.text(service_name, "service_name", complain),
    )
    spans.emit_request(record, occasion.context, occasion.at_ns)
    return keys


def current_keys(provider: object, request_id: str | None = None) -> JoinKeys:
    """Return the run, the current rollout, and the provider as Gym names it."""
    name = inputs.text(getattr(provider, "name", None), "provider", complain)
    return JoinKeys(
        run_id=tracing.current_run_id(),
        rollout_id=_current_rollout_id(),
        request_id=request_id,
        provider=name or type(provider).__name__,
    )


def complain(complaint: str) -> None:
    """Note a value that a span cannot hold."""
    FAULTS.note(f"NeMo Gym: {complaint}")


def _current_rollout_id() -> str | None:
    # Where nobody has imported Gym's module nobody can have begun a rollout.
    current = getattr(sys.modules.get(_ROLLOUTS), "current_rollout_id", None)
    return None if current is None else inputs.text(current(), "rollout_id", complain)


def _requested(resources: Any) -> SandboxResources:
    if isinstance(resources, Mapping):
        return inputs.requested(resources, complain)
    values = tuple(getattr(resources, key, None) for key in RESOURCE_KEYS)
    try:
        shape, complaints = _shape(*values)
    except TypeError:  # one of them cannot be hashed, and so not be remembered
        shape, complaints = _shape.__wrapped__(*values)
    for complaint in complaints:
        complain(complaint)
    return shape


@lru_cache(maxsize=256, typed=True)  # a run declares few shapes, each of them a great many times
def _shape(*values: object) -> tuple[SandboxResources, tuple[str, ...]]:
    """Return the shape of values in the order of RESOURCE_KEYS, and complaints."""
    complaints: list[str] = []
    shape = inputs.requested(dict(zip(RESOURCE_KEYS, values, strict=True)), complaints.append)
    return shape, tuple(complaints)
