"""What the poller's process is set up with: its event loop, its open files, and how it looks for garbage."""

import asyncio
import gc
import logging
import resource
from collections.abc import Awaitable, Callable

try:
    import uvloop
except ImportError:  # there is none for this platform
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

logger = logging.getLogger(__name__)

_GARBAGE_THRESHOLDS = (20_000, 10_000, 1_000_000)
"""New objects until they are looked at; such looks, of which half a day has as many, until one at what came in all of
them; and those until one at everything, which is never."""
_LOOK_AFTER_S = 5.0
_GROWN = 1.5
"""Times the memory of the last look at everything until the next."""


def raise_open_file_limit() -> None:
    """Take all open files that the system allows: each sandbox's connection is kept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        logger.info("open files: limit raised from %d to %d", soft, hard)


def calm_garbage_collector() -> None:
    """Keep looks for garbage short: each stops all readings, for half a microsecond an object (measured).

    Ten thousand sandboxes have a million objects. Readings leave no garbage, so that it is enough to look at what is
    new; whoever runs an event loop lets it `look_for_garbage` too.
    """
    gc.freeze()  # what was imported stays anyway
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


async def look_for_garbage(sleep: Callable[[float], Awaitable[None]]) -> None:
    """Look at what is new every few seconds, for ever.

    By itself Python looks once there are many more objects than before. That may be after many minutes in which most of
    what is kept of all sandboxes was replaced, and then the look is at all of it. Whether there is old garbage shows in
    the memory: everything is looked at whenever the process has become half as large again, which it seldom does.
    """
    looked_through = _most_memory()
    while True:
        await sleep(_LOOK_AFTER_S)
        if _most_memory() > _GROWN * looked_through:
            gc.collect()
            looked_through = _most_memory()
        else:
            gc.collect(0)


def _most_memory() -> int:
    """Return the most memory that the process has had, in the system's own unit."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
