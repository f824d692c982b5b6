"""The life of a sandbox in Gym: `AsyncSandbox.start` calls the provider's `create`, and later on `exec` and `close`.

Whatever goes wrong in here, every call returns what it returned, and raises what it raised.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakSet

from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.gym import compose, final_reading, inventory
from sandgauge_emitter.gym.creation import CREATION, START, Creation, Start, stock_span
from sandgauge_emitter.gym.handles import Handles, Owned
from sandgauge_emitter.gym.patches import Patches
from sandgauge_emitter.settings import SETTINGS
from sandgauge_schemas import names
from sandgauge_schemas.records import JoinKeys

Wrapped = Callable[..., Any]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


class Lifecycle:
    """What stands in for Gym's own functions; `sample_interval_s` is the interval that the run asks for."""

    def __init__(self, patches: Patches, sample_interval_s: float | None) -> None:
        self._patches = patches
        self._sample_interval_s = sample_interval_s
        self._handles = Handles()
        self._watched: WeakSet[type] = WeakSet()

    def watch(self, provider_class: type) -> None:
        """Wrap the methods of a provider's class that make, use and delete its sandboxes, where it inherits them from.

        A provider is no protocol of one base class, so each class is wrapped when it is first seen.
        """
        if provider_class in self._watched:
            return
        self._watched.add(provider_class)
        wrappers = {
            "create": self._create,
            "exec": self._exec,
            "exec_with_background_services": self._exec,
            "close": self._close,
        }
        for name, wrapper in wrappers.items():
            for owner in provider_class.__mro__:
                if name in vars(owner):
                    self._patches.wrap(owner, name, wrapper)
                    break

    def get_provider_class(self, wrapped: Wrapped, _instance: object, args: Args, kwargs: Kwargs) -> Any:
        """Stand in for the registry's function: every provider made from a configuration comes from here."""
        provider_class = wrapped(*args, **kwargs)
        with FAULTS.guard("get_provider_class"):
            self.watch(provider_class)
        return provider_class

    async def start(self, wrapped: Wrapped, instance: Any, args: Args, kwargs: Kwargs) -> Any:
        """Stand in for `AsyncSandbox.start`: what the provider is asked for within it belongs to this start."""
        if not SETTINGS.enabled:
            return await wrapped(*args, **kwargs)
        start = None
        with FAULTS.guard("start"):
            start = Start(instance)
            self.watch(type(instance._provider))  # noqa: SLF001  # Gym keeps it nowhere else
        token = START.set(start)
        try:
            started = await wrapped(*args, **kwargs)
        finally:
            if start is not None:
                start.is_open = False
            # A coroutine that is thrown away ends in another context than it began in.
            with suppress(ValueError):
                START.reset(token)
        if start is not None and start.keys is None:
            FAULTS.note("a provider's create could not be wrapped, so its sandboxes are not recorded")
        return started

    async def _create(self, wrapped: Wrapped, instance: object, args: Args, kwargs: Kwargs) -> Any:
        creation = None
        with FAULTS.guard("create"):
            creation = self._begin(instance, args[0] if args else kwargs["spec"])
        if creation is None:
            return await wrapped(*args, **kwargs)
        token = CREATION.set(creation)
        try:
            handle = await wrapped(*args, **kwargs)
        except BaseException as error:
            with FAULTS.guard("create"):
                creation.end(error=error)
            raise
        finally:
            creation.is_open = False
            with suppress(ValueError):
                CREATION.reset(token)
        with FAULTS.guard("create"):
            self._handles.remember(handle, creation.keys)
            creation.end(sandbox_id=getattr(handle, "sandbox_id", None))
        return handle

    def _begin(self, provider: object, spec: Any) -> Creation | None:
        """Record the request, unless this creation is part of another one, and return the creation."""
        start, outer = START.get(), CREATION.get()
        if start is not None and not start.is_open:
            start = None
        if start is None and not SETTINGS.enabled:
            return None
        if start is not None and start.keys is None:
            keys = start.keys = _request(start, provider, spec)
        elif outer is not None and outer.is_open:
            return None  # a provider that calls another one, or the class that it inherits from
        elif start is not None and start.keys is not None:
            keys = start.keys  # another try of the same start
        else:
            keys = inventory.record_request(provider, inventory.Occasion(), spec.resources)
        return Creation(keys, self._sample_interval_s)

    def _exec(self, wrapped: Wrapped, instance: object, args: Args, kwargs: Kwargs) -> Any:
        with FAULTS.guard("exec"):
            handle = args[0] if args else kwargs["handle"]
            _complete(names.SPAN_GYM_SANDBOX_EXEC, instance, self._handles.of(handle))
        return wrapped(*args, **kwargs)

    def _close(self, wrapped: Wrapped, instance: object, args: Args, kwargs: Kwargs) -> Any:
        owned = sandbox_id = None
        with FAULTS.guard("close"):
            handle = args[0] if args else kwargs["handle"]
            owned, sandbox_id = self._handles.of(handle), getattr(handle, "sandbox_id", None)
            _complete(names.SPAN_GYM_SANDBOX_STOP, instance, owned)
        if owned is None or owned.was_read or not final_reading.is_wanted():
            return wrapped(*args, **kwargs)
        return _read_and_close(owned, str(sandbox_id), wrapped, args, kwargs)


async def _read_and_close(owned: Owned, sandbox_id: str, wrapped: Wrapped, args: Args, kwargs: Kwargs) -> Any:
    with owned.closing():
        await _read_once(owned, sandbox_id)
        return await wrapped(*args, **kwargs)


async def _read_once(owned: Owned, sandbox_id: str) -> None:
    """Have it read, or wait while it is read for another: a deletion now would come below that reading."""
    while (reading := owned.reading) is not None:
        await asyncio.wait([asyncio.wrap_future(reading)], timeout=final_reading.TIMEOUT_S)
        if not reading.done() or reading.result():
            return
    with owned.being_read(), FAULTS.guard("final reading"):
        await final_reading.before_deletion(sandbox_id)


def _request(start: Start, provider: object, spec: Any) -> JoinKeys:
    """Record the request of a start, and with it those of its whole collection; as children of what surrounds it."""
    record = partial(inventory.record_request, provider, start.occasion)
    if (collection := compose.current()) is not None:
        with FAULTS.guard("compose"):
            if (service := collection.request(start.sandbox, spec.resources, record)) is not None:
                return service
    return record(spec.resources)


def _complete(name: str, provider: object, owned: Owned | None) -> None:
    """Put the join keys on Gym's own span; on that of a borrowed sandbox those of the moment."""
    span = stock_span(name)
    if span is not None:
        keys = inventory.current_keys(provider) if owned is None else owned.keys
        span.set_attributes(keys.to_attributes())
