"""A server that a test runs in a thread and an event loop of its own."""

import asyncio
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

_START_TIMEOUT_S = 60.0


class ServedInThread(ABC):
    """Runs `_serve` while its context is open; that sets `_started` once it serves, and ends when `_ended` is set.

    An OSError before that, such as a port that is taken, is raised where the context was to be opened.
    """

    start_timeout_s = _START_TIMEOUT_S

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(self.start_timeout_s):
            raise TimeoutError(f"{self._thread.name} did not start")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except OSError as error:
            if self._started.is_set():
                raise
            self._failure = error
            self._started.set()

    @abstractmethod
    async def _serve(self) -> None:
        """Serve until the context ends."""
