"""Bodies that fail each time for no foreseen reason: set aside and answered, so that they do not stop the feed.

A sender repeats whatever is answered 503, so a body that brings out an error of our own would come back for ever and
keep what waits behind it.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

logger = logging.getLogger(__name__)

FAILURES = 3
"""So often a body must fail: whatever else was wrong the first time may be over by then."""

MOST_BODIES = 100
MOST_BYTES = 64 * 1024**2
"""Bounds of the folder; the newest body is kept in any case."""

_REMEMBERED = 1000


class Quarantine:
    """The folder, and the memory of what failed; the latest failures are remembered by the hash of their body."""

    def __init__(self, folder: Path, now_ns: Callable[[], int]) -> None:
        self._folder = folder
        self._now_ns = now_ns
        self._failures: dict[str, int] = {}

    async def takes(self, content_type: str, body: bytes, error: Exception) -> bool:
        """Note that a body failed; return whether it is set aside now, and so is not to come again."""
        digest = await asyncio.to_thread(lambda: hashlib.sha256(content_type.encode() + b"\n" + body).hexdigest())
        failures = self._failures.pop(digest, 0) + 1
        if failures < FAILURES:
            if len(self._failures) >= _REMEMBERED:
                del self._failures[next(iter(self._failures))]
            self._failures[digest] = failures
            return False
        about: dict[str, object] = {
            "time": datetime.fromtimestamp(self._now_ns() / 1e9, UTC).isoformat(),
            "content_type": content_type,
            "bytes": len(body),
            # Its text may quote the body, and the body anything.
            "error_type": f"{type(error).__module__}.{type(error).__qualname__}",
        }
        file = self._folder / f"{self._now_ns():020d}-{digest[:16]}.body"
        try:
            await asyncio.to_thread(_keep, file, body, about)
        except OSError as failure:
            logger.exception(
                "a request failed %d times and is dropped: %s cannot be written", FAILURES, failure.filename
            )
        else:
            logger.error("a request failed %d times and is set aside as %s (%s)", FAILURES, file, about["error_type"])
        return True


def _keep(file: Path, body: bytes, about: dict[str, object]) -> None:
    file.parent.mkdir(mode=0o700, exist_ok=True)
    for path, content in ((file, body), (file.with_suffix(".json"), json.dumps(about, indent=2).encode())):
        path.touch(mode=0o600)
        path.write_bytes(content)
    for old in _excess(file.parent):
        old.unlink()
        old.with_suffix(".json").unlink(missing_ok=True)


def _excess(folder: Path) -> Iterator[Path]:
    """Yield the oldest bodies, beyond what the folder may hold."""
    size = 0
    for number, file in enumerate(sorted(folder.glob("*.body"), reverse=True), start=1):
        size += file.stat().st_size
        if number > MOST_BODIES or (size > MOST_BYTES and number > 1):
            yield file
