"""`python -m bench.floor`: a bare aiohttp loop that makes the poller's reads, and nothing of them.

Takes from standard input a JSON object: `addresses` of daemons, `interval_s`, and whether to use `uvloop`.
"""

import asyncio
import gc
import json
import random
import resource
import sys
import time
from collections.abc import Sequence

import aiohttp
import uvloop
from yarl import URL

_TIMEOUT_S = 2.0
_KEEPALIVE_S = 75.0


async def read_all(addresses: Sequence[str], interval_s: float) -> None:
    """Read each address once an interval at a time of its own, whether or not earlier reads are through."""
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def read(url: URL) -> None:
            try:
                async with session.get(url) as response:
                    await response.read()
            except (aiohttp.ClientError, TimeoutError):
                return

        urls = [URL(f"http://{address}/metrics") for address in addresses]
        phases = sorted((random.random() * interval_s, url) for url in urls)
        begin = time.monotonic()
        running: set[asyncio.Task[None]] = set()
        while True:
            for phase_s, url in phases:
                if (wait_s := begin + phase_s - time.monotonic()) > 0:
                    await asyncio.sleep(wait_s)
                task = asyncio.create_task(read(url))
                running.add(task)
                task.add_done_callback(running.discard)
            begin += interval_s


def main() -> None:
    """Read until killed."""
    given = json.load(sys.stdin)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    run = uvloop.run if given["uvloop"] else asyncio.run
    run(read_all(given["addresses"], given["interval_s"]))


if __name__ == "__main__":
    main()
