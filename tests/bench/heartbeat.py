"""Whether an event loop is free, measured on the loop itself: a timer each 5 ms, and how late each beat of it is.

A beat that is late says that the loop was held, and by whom: what the loop's own thread computed meanwhile, what the
whole process did, and the rest, in which the machine gave the core to others or a disk was waited for. A thread beside
it looks, while a beat is late, where every thread is. Everything goes to files, so that a long run adds no memory.
"""

import asyncio
import gc
import json
import struct
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

WATCH = "bench-watch"
"""The thread beside the loop."""

PERIOD_S = 0.005
LATE_S = 0.03
"""From then on it is looked for what holds the loop."""

_LOOK_S = 0.01
_MOST_LOOKS = 5000
_DEEP = 12
"""Innermost calls that are kept of a thread."""

_BEAT = struct.Struct("<qddd")
_COLLECTION = struct.Struct("<qdq")
_BEATS, _COLLECTIONS, _LOOKS = "beats", "collections", "looks"


class Beat(NamedTuple):
    """One turn of the timer; `at_ns` since the epoch, when it came.

    `lag_s`: how much too late. `loop_s` and `process_s`: the CPU time that the loop's thread, and the whole process,
    used since the beat before.
    """

    at_ns: int
    lag_s: float
    loop_s: float
    process_s: float

    @property
    def held_s(self) -> float:
        """The part of the lag in which the loop's own thread was computing, at most."""
        return min(self.lag_s, self.loop_s)

    @property
    def held_by_process_s(self) -> float:
        """The same with all other threads of the process, for which it may have waited."""
        return min(self.lag_s, self.process_s)


class Collection(NamedTuple):
    """One look for garbage, by whatever thread; its objects' generation."""

    at_ns: int
    took_s: float
    generation: int


@dataclass(frozen=True, slots=True)
class Look:
    """Where the threads were while a beat was late: innermost calls last, by the thread's name."""

    at_ns: int
    late_s: float
    threads: dict[str, list[str]]


class Heartbeat:
    """Beats on a loop that the calling thread is about to run, for as long as the process lives."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._beats = (folder / _BEATS).open("ab")
        self._collections = (folder / _COLLECTIONS).open("ab")
        self._looks = (folder / _LOOKS).open("a")
        self._began_s = 0.0
        self._note()
        loop.call_later(PERIOD_S, self._beat)
        gc.callbacks.append(self._on_collection)
        threading.Thread(target=self._watch, name=WATCH, daemon=True).start()

    def _note(self) -> None:
        self._loop_s, self._process_s = time.thread_time(), time.process_time()
        self._last_s = time.monotonic()

    def _beat(self) -> None:
        lag_s = max(0.0, time.monotonic() - self._last_s - PERIOD_S)
        loop_s, process_s = time.thread_time() - self._loop_s, time.process_time() - self._process_s
        self._beats.write(_BEAT.pack(time.time_ns(), lag_s, loop_s, process_s))
        if lag_s > LATE_S:
            self._beats.flush()
        self._note()
        self._loop.call_later(PERIOD_S, self._beat)

    def _on_collection(self, stage: str, told: dict[str, int]) -> None:
        if stage == "start":
            self._began_s = time.monotonic()
            return
        took_s = time.monotonic() - self._began_s
        self._collections.write(_COLLECTION.pack(time.time_ns(), took_s, told["generation"]))
        self._collections.flush()

    def _watch(self) -> None:
        for _ in range(_MOST_LOOKS):
            while (late_s := time.monotonic() - self._last_s - PERIOD_S) < LATE_S:
                time.sleep(_LOOK_S)
            found = {"at_ns": time.time_ns(), "late_s": late_s, "threads": self._threads()}
            self._looks.write(json.dumps(found) + "\n")
            self._looks.flush()
            time.sleep(_LOOK_S)

    def _threads(self) -> dict[str, list[str]]:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        own = threading.get_ident()
        return {
            "loop" if ident == self._loop_thread else names.get(ident, str(ident)): _calls(frame)
            for ident, frame in sys._current_frames().items()
            if ident != own
        }


def _calls(frame: FrameType | None) -> list[str]:
    calls: list[str] = []
    while frame is not None and len(calls) < _DEEP:
        code = frame.f_code
        calls.append(f"{'/'.join(Path(code.co_filename).parts[-2:])}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return calls[::-1]


def beats(folder: Path) -> Iterator[Beat]:
    """Yield what a process has written so far; the last moments may not be there yet."""
    return (Beat(*one) for one in _rows(_BEAT, folder / _BEATS))


def collections(folder: Path) -> Iterator[Collection]:
    """Yield the looks for garbage so far."""
    return (Collection(*one) for one in _rows(_COLLECTION, folder / _COLLECTIONS))


def looks(folder: Path) -> Iterator[Look]:
    """Yield what was seen so far while beats were late."""
    for line in (folder / _LOOKS).read_text().splitlines():
        yield Look(**json.loads(line))


def _rows(form: struct.Struct, file: Path) -> Iterator[tuple[Any, ...]]:
    content = file.read_bytes()
    return form.iter_unpack(content[: len(content) // form.size * form.size])
