"""Time on the processor before all other work, for tests of how late something is on a machine that others use too."""

import os
from contextlib import suppress
from pathlib import Path


def undisturb(*pids: int) -> bool:
    """Let the processes run before all others that are no more urgent; return False where the system forbids it.

    Threads and processes that they start from now on inherit it. The system itself keeps some time for the others.
    """
    try:
        for pid in pids:
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with suppress(ProcessLookupError):
                    os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True
