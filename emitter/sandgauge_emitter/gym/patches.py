"""Wrapping what others defined, and giving back the very objects that were there."""

from collections.abc import Callable
from types import ModuleType
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from wrapt import FunctionWrapper

from sandgauge_emitter.locks import LOCK

Wrapper = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
"""What is called instead: with the bound original, its instance, and the arguments."""


class Patches:
    """The attributes that are wrapped, each once; a class that nobody else has a use for any more is let go."""

    def __init__(self) -> None:
        # An original may lead back to its class, so each is kept by its wrapper alone.
        self._wrapped: WeakKeyDictionary[type | ModuleType, dict[str, ReferenceType[Any]]] = WeakKeyDictionary()
        self._is_on = True

    def wrap(self, owner: type | ModuleType, name: str, wrapper: Wrapper) -> None:
        """Wrap the function, method or class method that the owner itself holds under a name.

        Raises:
            KeyError: It holds none.

        """
        with LOCK:
            wrapped = self._wrapped.setdefault(owner, {})
            if name not in wrapped:
                patch = FunctionWrapper(vars(owner)[name], wrapper, self._is_wanted)
                setattr(owner, name, patch)
                wrapped[name] = ref(patch)

    def restore(self) -> None:
        """Put every original back; what somebody wrapped once more stays so, and the wrapper below it does nothing."""
        with LOCK:
            self._is_on = False
            for owner, wrapped in self._wrapped.items():
                for name, reference in wrapped.items():
                    patch = reference()
                    is_on_top = vars(owner).get(name) is patch
                    if patch is not None and is_on_top:
                        setattr(owner, name, patch.__wrapped__)
            self._wrapped.clear()

    def _is_wanted(self) -> bool:
        return self._is_on
