"""The emitter's one lock."""

import os
import threading

LOCK = threading.RLock()
"""Guards what the threads of the process share; one lock, so that no two can be taken in the wrong order.

A fork waits for it: a child never starts with a tracer provider half built, nor with a module half imported by a
thread that it does not have.
"""

# The thread that forks holds the lock in both processes afterwards.
os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
