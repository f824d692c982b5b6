"""The event loop that the poller runs on."""

import asyncio

try:
    import uvloop
except ImportError:  # there is none for this platform
    new_event_loop = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop
