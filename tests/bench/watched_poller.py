"""The poller, which on SIGUSR1 also writes what it has of tasks and threads to the file that `POLLER_COUNTS` names.

Where `POLLER_HEARTBEAT` names a folder, its event loop has a heartbeat, which costs about half a percent of a core.
"""

import asyncio
import json
import os
import signal
import threading
from pathlib import Path
from types import FrameType

from bench.heartbeat import WATCH, Heartbeat
from sandgauge_poller import process
from sandgauge_poller.__main__ import main

COUNTS, HEARTBEAT = "POLLER_COUNTS", "POLLER_HEARTBEAT"


def _count(_number: int, _frame: FrameType | None) -> None:
    target = Path(os.environ[COUNTS])
    partial = target.with_suffix(".partial")
    # The handler runs in the loop's own thread, between two steps of it. The kernel does not know threads' names.
    tasks = len(asyncio.all_tasks(asyncio.get_running_loop()))
    threads = {thread.name: thread.native_id for thread in threading.enumerate() if thread.name != WATCH}
    partial.write_text(json.dumps({"tasks": tasks, "threads": threads}))
    partial.replace(target)


def _let_beat(folder: Path) -> None:
    plain = process.new_event_loop

    def beating() -> asyncio.AbstractEventLoop:
        loop = plain()
        Heartbeat(loop, folder)
        return loop

    process.new_event_loop = beating


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _count)
    if HEARTBEAT in os.environ:
        _let_beat(Path(os.environ[HEARTBEAT]))
    main()
