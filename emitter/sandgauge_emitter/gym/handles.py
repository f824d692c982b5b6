"""The sandboxes that were made here, by the handle that the provider gave out; a borrower of one has another handle."""

import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sandgauge_schemas.records import JoinKeys


@dataclass(slots=True)
class Owned:
    """A sandbox made here, and what goes on where it is deleted; that may be asked for twice at one time.

    `reading` ends with whether the reading before deletion is over; it is False where its asker was cancelled.
    """

    keys: JoinKeys
    closers: int = 0
    reading: Future[bool] | None = None

    @property
    def was_read(self) -> bool:
        """Whether the deletion that goes on has its reading."""
        return self.reading is not None and self.reading.done()

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Keep the reading until the last of those who delete it is through: one that failed needs another."""
        self.closers += 1
        try:
            yield
        finally:
            self.closers -= 1
            if not self.closers:
                self.reading = None

    @contextmanager
    def being_read(self) -> Iterator[None]:
        """Let others wait for the reading."""
        reading: Future[bool] = Future()
        self.reading = reading
        reading.set_running_or_notify_cancel()  # one who waits and is cancelled ends no reading
        is_over = False
        try:
            yield
            is_over = True
        finally:
            if not is_over:
                self.reading = None
            reading.set_result(is_over)


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
