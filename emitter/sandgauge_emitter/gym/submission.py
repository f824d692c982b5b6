"""What Gym's provider hands to OpenSandbox's client: the last thing that can be seen before it is sent."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sandgauge_emitter import inputs
from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.gym.creation import CREATION
from sandgauge_emitter.gym.inventory import complain
from sandgauge_schemas.quantity import QuantityError, parse_quantity
from sandgauge_schemas.records import Submission
from sandgauge_schemas.resource_names import read_amounts
from sandgauge_schemas.resources import SandboxResourceAmounts

# OpenSandbox's own names, beside those of Kubernetes.
_GPU = "gpu"
_GPU_TYPE = "gpu_type"
# The client appends it to the URL that Gym's user wrote.
_API_PATH = "/v1"


def create(wrapped: Callable[..., Any], _instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stand in for `opensandbox.Sandbox.create`: note what is submitted, and call it. A later try counts instead."""
    with FAULTS.guard("submission"):
        creation = CREATION.get()
        if creation is not None and creation.is_open:
            creation.submission = submission(kwargs.get("resource"), kwargs.get("resource_requests"))
            creation.scope = _scope(kwargs.get("connection_config"))
    return wrapped(*args, **kwargs)


def submission(limits: Mapping[str, str] | None, requests: Mapping[str, str] | None) -> Submission:
    """Return the submission of the client's two maps of quantity texts; an empty map is left to the client."""
    return Submission(limits=_amounts(limits), requests=_amounts(requests), sdk_default=not limits and not requests)


def _amounts(quantities: Mapping[str, str] | None) -> SandboxResourceAmounts:
    amounts, complaints = _read(tuple((quantities or {}).items()))
    for complaint in complaints:
        complain(complaint)
    return amounts


@lru_cache(maxsize=256)  # a run submits few shapes, each of them a great many times
def _read(quantities: tuple[tuple[str, str], ...]) -> tuple[SandboxResourceAmounts, tuple[str, ...]]:
    """Return the amounts of a map, and complaints.

    A name outside the vocabulary means nothing, and an unreadable text is absent.
    """
    given = dict(quantities)
    complaints: list[str] = []
    amounts, notes = read_amounts(given)
    gpu = amounts.gpu if _GPU not in given else _count(given[_GPU])
    if notes or isinstance(gpu, QuantityError):
        complaints.append("a submitted quantity cannot be read and is left out")
    amounts = replace(
        amounts,
        gpu=None if isinstance(gpu, QuantityError) else gpu,
        gpu_type=inputs.text(given.get(_GPU_TYPE), "gpu_type", complaints.append),
    )
    return amounts, tuple(complaints)


def _count(text: str) -> int | QuantityError:
    quantity = parse_quantity(text)
    return quantity if isinstance(quantity, QuantityError) else quantity.to_count()


def _scope(connection: Any) -> str | None:
    if connection is None:
        return None
    return inputs.scope(connection.get_base_url().removesuffix(_API_PATH), complain)
