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

_GARBAGE_THRESHOLDS = (5_000, 3, 1_000_000)
"""New objects until they are looked at, how many such looks until one at what has come since the last, and how many of
those until one at everything, which is never."""


def raise_open_file_limit() -> None:
    """Take all open files that the system allows: each sandbox's connection is kept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        logger.info("open files: limit raised from %d to %d", soft, hard)


def calm_garbage_collector() -> None:
    """Look for garbage often among a few new objects, and never among all that live.

    A look stops all readings: for half a microsecond to one for each object (measured), of which ten thousand sandboxes
    have a million. A reading leaves no garbage; what a failure leaves is new.
    """
    gc.freeze()  # what was imported stays anyway
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
