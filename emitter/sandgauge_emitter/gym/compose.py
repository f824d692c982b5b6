"""Collections of services: all are asked for before the first of them starts."""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.gym.inventory import Record
from sandgauge_schemas.records import JoinKeys

_COLLECTION: ContextVar["Collection | None"] = ContextVar("sandgauge_gym_collection", default=None)


class Collection:
    """One `AsyncSandboxCompose` that starts its services."""

    def __init__(self, compose: Any) -> None:
        self._compose = compose
        self._planned: dict[str, JoinKeys] | None = None

    def request(self, sandbox: object, resources: object, record: Record) -> JoinKeys | None:
        """Return the keys of a service's request; None for a sandbox that is no service, such as a helper.

        Every planned service is recorded at the first start within the collection. If Gym no longer keeps its plans
        where they were, each service is recorded as it starts.
        """
        if self._planned is None:
            self._planned = {}
            with FAULTS.guard("compose"):
                for name, plan in getattr(self._compose, "_plans", {}).items():
                    self._planned[name] = self._record(record, plan["spec"].resources, name)
        for name, service in self._compose.services.items():
            if service is sandbox:
                return self._planned.pop(name, None) or self._record(record, resources, name)
        return None

    def _record(self, record: Record, resources: object, name: str) -> JoinKeys:
        return record(resources, collection_id=self._compose.project, service_name=name)


def current() -> Collection | None:
    """Return the collection whose services are being started."""
    return _COLLECTION.get()


async def start(wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Stand in for `AsyncSandboxCompose.start`: what starts within it belongs to the collection."""
    token = _COLLECTION.set(Collection(instance))
    try:
        return await wrapped(*args, **kwargs)
    finally:
        # A coroutine that is thrown away ends in another context than it began in.
        with suppress(ValueError):
            _COLLECTION.reset(token)
