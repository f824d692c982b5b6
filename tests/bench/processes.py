"""Processes of a measurement: each on the core that it is given, and what the kernel says of it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psutil

from support.direct_session import direct_session

_PROCESS_CLOCK = 2
"""CPUCLOCK_SCHED: all threads of a process, those that have ended included, in ns."""


def cores() -> tuple[int, int]:
    """Return the core of what is measured and that of everything else; one and the same where there is but one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Let processes that begin meanwhile run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far, user and system, to the nanosecond."""
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


def thread_cpu_s(pid: int, thread_id: int) -> float:
    """Return the CPU seconds of one of its threads so far."""
    return int(Path(f"/proc/{pid}/task/{thread_id}/schedstat").read_text().split()[0]) / 1e9


def waited_s(pid: int) -> float:
    """Return how long its main thread was ready so far and had no core: other threads had it, its own among them."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def rss_bytes(pid: int) -> int:
    """Return its resident memory."""
    return int(psutil.Process(pid).memory_info().rss)


def stored_bytes(pid: int) -> int:
    """Return what it has written to disks so far."""
    return int(psutil.Process(pid).io_counters().write_bytes)


def open_files(pid: int) -> int:
    """Return how many files it has open, connections included."""
    return int(psutil.Process(pid).num_fds())


class Program:
    """A program of this package in a process of its own, on a given core, until the context closes.

    With `given` it gets that as JSON on standard input.
    """

    def __init__(self, name: str, core: int, *arguments: str, given: Any = None) -> None:
        with on_core(core):
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"bench.{name}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(given))
        self._process.stdin.close()
        self.pid = self._process.pid

    def first_line(self) -> str:
        """Return what it says first."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def stop(self) -> None:
        """Have it end."""
        self._process.terminate()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class FleetProcess:
    """The fleet in a process of its own, and its handle."""

    def __init__(self, core: int) -> None:
        self._program = Program("fleet", core)
        self.pid = self._program.pid
        self.url = f"http://127.0.0.1:{self._program.first_line()}"
        self._http = direct_session()

    def create(self, ids: Sequence[str], *, hangs: bool = False) -> list[str]:
        """Create sandboxes and return their daemons' addresses."""
        addresses: list[str] = self._call("create", {"ids": list(ids), "hangs": hangs})
        return addresses

    def delete(self, ids: Sequence[str]) -> None:
        """Remove sandboxes."""
        self._call("delete", {"ids": list(ids)})

    def counts(self) -> Mapping[str, int]:
        """Return how often each kind of question came, and how many sandboxes were not read yet (`unread`)."""
        counts: dict[str, int] = self._call("counts", None)
        return counts

    def forget_reads(self) -> None:
        """Take every sandbox for one that was not read yet."""
        self._call("forget", None)

    def _call(self, what: str, content: Any) -> Any:
        answer = self._http.post(f"{self.url}/_fleet/{what}", json=content, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._program.stop()


class SinkProcess:
    """The sink in a process of its own; what it got is in `file`, up to what `settle` returns."""

    def __init__(self, core: int, file: Path) -> None:
        self._program = Program("sink", core, str(file))
        self.file = file
        self.endpoint = f"http://127.0.0.1:{self._program.first_line()}"

    def settle(self) -> int:
        """Have all so far written, and return the size of the file."""
        session = direct_session()
        with session:
            return int(session.get(f"{self.endpoint}/_sink/size", timeout=60).json())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.stop()
