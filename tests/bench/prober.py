"""`python -m bench.prober PORT FILE`: how long a poller takes to say that it is well, asked every 20 ms.

The answer waits for whatever the event loop does just then, so the longest one bounds how long the loop was held from
above; what the machine does meanwhile is in it too.
"""

import asyncio
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import uvloop

ANSWER = struct.Struct("<qd")
"""When it was asked, in ns since the epoch, and seconds until the answer."""

_EVERY_S = 0.02
_PATIENCE_S = 30.0


async def probe(port: int, file: BinaryIO) -> None:
    """Ask until SIGTERM; an answer that takes longer than its turn delays the next question."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    question = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    while not told.is_set():
        asked_ns, began = time.time_ns(), time.monotonic()
        writer.write(question)
        async with asyncio.timeout(_PATIENCE_S):
            await reader.readuntil(b"}")
        took_s = time.monotonic() - began
        file.write(ANSWER.pack(asked_ns, took_s))
        await asyncio.sleep(max(0.0, _EVERY_S - took_s))
    writer.close()


def answers(file: Path) -> Iterator[tuple[int, float]]:
    """Yield what a prober that has ended wrote."""
    yield from ANSWER.iter_unpack(file.read_bytes())


def main() -> None:
    """Probe until SIGTERM."""
    with Path(sys.argv[2]).open("wb") as file:
        uvloop.run(probe(int(sys.argv[1]), file))


if __name__ == "__main__":
    main()
