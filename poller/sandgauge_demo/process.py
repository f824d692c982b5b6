"""A part of the pipeline as a child process: started, awaited, and ended whatever happens to its parent's terminal."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_STOP_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.02
_LOG_TAIL_LINES = 5

Pause = Callable[[float], None]
"""Let so many seconds pass, or raise what ends the waiting early."""


class ProcessError(Exception):
    """A child process did not start, or ended by itself; the message shows the end of its log and where it is."""


class ChildProcess:
    """A child process, as a context manager that starts and stops it. Its output is appended to `log_file`.

    It has a session of its own, so Ctrl-C in the terminal reaches the parent alone, which ends its children in its
    own order. `start` may be called again after `stop` or `kill`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log_file: Path,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self.log_file = log_file
        self._command = tuple(command)
        self._environment = dict(environment)
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the process."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the process."""
        self.stop()

    @property
    def exit_code(self) -> int | None:
        """How it ended by itself; None while it runs and after `stop` or `kill`."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the process. Raise ProcessError where the system refuses."""
        with self.log_file.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - a fixed command of this package, no shell
                    self._command,
                    env=self._environment,
                    cwd=self._directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessError(f"{self.name} does not start: {error.strerror}") from error

    def wait_until(
        self, condition: Callable[[], bool], *, timeout_s: float, what: str, pause: Pause = time.sleep
    ) -> None:
        """Return once the condition holds.

        Raise ProcessError when the process ends first or the time is over. `what` completes "the process was not …".
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.exit_code is not None:
                raise ProcessError(f"{self.name} ended with {self.exit_code} while starting; {self.log_tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} was not {what} within {timeout_s:.0f} s; {self.log_tail()}")
            pause(_POLL_INTERVAL_S)

    def stop(self) -> None:
        """Ask the process to end and wait; kill it when it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """Return the last lines of its log, below a line that says where it is."""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"the end of {self.log_file}:", *lines[-_LOG_TAIL_LINES:]])
