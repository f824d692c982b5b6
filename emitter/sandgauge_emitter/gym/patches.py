"""Wrapping what others defined, and giving back the very objects that were there."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from wrapt import FunctionWrapper

from sandgauge_emitter.locks import LOCK

Wrapper = Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]
"""What is called instead: with the bound original, its instance, and the arguments."""


class Patches:
    """The attributes that are wrapped, each once."""

    def __init__(self) -> None:
        self._originals: dict[tuple[type | ModuleType, str], object] = {}

    def wrap(self, owner: type | ModuleType, name: str, wrapper: Wrapper) -> None:
        """Wrap the function, method or class method that the owner itself holds under a name.

        Raises:
            KeyError: It holds none.

        """
        with LOCK:
            if (owner, name) not in self._originals:
                original: Any = vars(owner)[name]
                setattr(owner, name, FunctionWrapper(original, wrapper))
                self._originals[owner, name] = original

    def restore(self) -> None:
        """Put every original back."""
        with LOCK:
            for (owner, name), original in self._originals.items():
                setattr(owner, name, original)
            self._originals.clear()
