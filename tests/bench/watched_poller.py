"""The poller, which on SIGUSR1 also writes what it has of tasks and threads to the file that `POLLER_COUNTS` names."""

import asyncio
import json
import os
import signal
import threading
from pathlib import Path
from types import FrameType

from sandgauge_poller.__main__ import main

VARIABLE = "POLLER_COUNTS"


def _count(_number: int, _frame: FrameType | None) -> None:
    target = Path(os.environ[VARIABLE])
    partial = target.with_suffix(".partial")
    # The handler runs in the loop's own thread, between two steps of it. The kernel does not know threads' names.
    tasks = len(asyncio.all_tasks(asyncio.get_running_loop()))
    threads = {thread.name: thread.native_id for thread in threading.enumerate()}
    partial.write_text(json.dumps({"tasks": tasks, "threads": threads}))
    partial.replace(target)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _count)
    main()
