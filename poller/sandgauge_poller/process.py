"""What the poller's process is set up with: its event loop, its open files, and how it looks for garbage."""

import asyncio
import gc
import logging
import resource

try:
    import uvloop
except ImportError:  # there is none for this platform
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

logger = logging.getLogger(__name__)

_GARBAGE_THRESHOLDS = (100_000, 50, 1_000)
"""New objects until they are looked at, and how many such looks until one at the middle-aged, and at all."""


def raise_open_file_limit() -> None:
    """Take all open files that the system allows: each sandbox's connection is kept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        logger.info("open files: limit raised from %d to %d", soft, hard)


def calm_garbage_collector() -> None:
    """Look for garbage among what is new, and hardly ever through everything that lives.

    That stops all readings at once: for a tenth of a second with a thousand sandboxes (measured), longer with more.
    """
    gc.freeze()  # what was imported stays anyway
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
