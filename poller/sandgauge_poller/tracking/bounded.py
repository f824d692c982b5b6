"""A dictionary with a bound: what waits for something that may never come must not grow for ever."""

from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class BoundedDict(Generic[_Key, _Value]):
    """At most `capacity` entries; a new one beyond that takes the place of the oldest."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[_Key, _Value] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __setitem__(self, key: _Key, value: _Value) -> None:
        if key not in self._entries and len(self._entries) >= self._capacity:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = value

    def get(self, key: _Key) -> _Value | None:
        """Return the entry, or None."""
        return self._entries.get(key)

    def pop(self, key: _Key) -> _Value | None:
        """Take the entry out and return it, or None."""
        return self._entries.pop(key, None)
