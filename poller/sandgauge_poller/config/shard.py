"""One of several pollers that share a fleet: which one it is, and how many there are."""

import re
from dataclasses import dataclass

from sandgauge_poller.config.errors import InvalidValueError

_SHARD = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*-)?(?P<index>\d{1,4})/(?P<count>\d{1,4})")


@dataclass(frozen=True, slots=True)
class Shard:
    """Number `index` of `count`, the first being 0; one at or beyond the count owns nothing and stands by."""

    index: int
    count: int

    def __str__(self) -> str:
        """Return it as the file has it."""
        return f"{self.index}/{self.count}"


def parse_shard(text: str) -> Shard | None:
    """Return the shard of `0/3`, or of `poller-0/3` as the pods of a StatefulSet are called; None of an empty text.

    Raises:
        InvalidValueError: `text` is neither.

    """
    if not text:
        return None
    cure = "write index/count, the first index being 0, such as 0/3 or ${env:HOSTNAME}/3"
    match = _SHARD.fullmatch(text)
    if match is None:
        raise InvalidValueError("is not index/count", cure)
    shard = Shard(int(match["index"]), int(match["count"]))
    if shard.count == 0:
        raise InvalidValueError("has a count of 0", cure)
    return shard
