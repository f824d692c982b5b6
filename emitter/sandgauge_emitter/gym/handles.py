"""The sandboxes that were made here, by the handle that the provider gave out; a borrower of one has another handle."""

import weakref
from contextlib import suppress
from dataclasses import dataclass

from sandgauge_schemas.records import JoinKeys


@dataclass(slots=True)
class Owned:
    """A sandbox made here; `is_closing` while the provider deletes it."""

    keys: JoinKeys
    is_closing: bool = False


class Handles:
    """Remembers each for as long as its handle lives."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[object], Owned]] = {}

    def remember(self, handle: object, keys: JoinKeys) -> None:
        """Remember what a new handle belongs to."""
        identity = id(handle)
        # A handle of another framework may not allow weak references; then nothing is known of it later on.
        with suppress(TypeError):
            reference = weakref.ref(handle, lambda _: self._known.pop(identity, None))
            self._known[identity] = (reference, Owned(keys))

    def of(self, handle: object) -> Owned | None:
        """Return what is known of a handle."""
        reference, owned = self._known.get(id(handle), (None, None))
        return owned if reference is not None and reference() is handle else None
