"""`python -m bench.sink FILE`: a Collector that answers 200, and notes of each request when it came and what it held.

Nothing is looked into meanwhile; `deliveries` reads the file afterwards.
"""

import gc
import json
import struct
import sys
import time
from pathlib import Path
from typing import BinaryIO

from bench.http_server import HttpConnection, serve, target_of

FRAME = struct.Struct("<q?BI")
"""Before each body: ns since the epoch when it was whole, whether it is of traces, whether it is packed, its bytes."""


class Connection(HttpConnection):
    """One sender."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file

    def on_request(self, head: bytes, body: bytes) -> None:
        """Keep a request; a question for `/_sink/size` is answered once all so far is in the file."""
        path = target_of(head)
        if path == "/_sink/size":
            self._file.flush()
            self.answer(json.dumps(self._file.tell()).encode())
            return
        is_packed = b"content-encoding: gzip" in head.lower()
        self._file.write(FRAME.pack(time.time_ns(), path == "/v1/traces", is_packed, len(body)))
        self._file.write(body)
        self.answer(b"", content_type="application/x-protobuf")


def main() -> None:
    """Serve until SIGTERM."""
    gc.freeze()
    with Path(sys.argv[1]).open("wb") as file:
        serve(lambda: Connection(file))


if __name__ == "__main__":
    main()
