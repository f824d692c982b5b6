"""The poller, which on SIGUSR1 also writes how many asyncio tasks it has to the file that `TASK_COUNT_FILE` names."""

import asyncio
import os
import signal
from pathlib import Path
from types import FrameType

from sandgauge_poller.__main__ import main

VARIABLE = "TASK_COUNT_FILE"


def _count(_number: int, _frame: FrameType | None) -> None:
    target = Path(os.environ[VARIABLE])
    partial = target.with_suffix(".partial")
    # The handler runs in the loop's own thread, between two steps of it.
    partial.write_text(str(len(asyncio.all_tasks(asyncio.get_running_loop()))))
    partial.replace(target)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _count)
    main()
