"""Whose a sandbox is, where several pollers share a fleet: told by its id alone."""

from collections.abc import Callable
from hashlib import blake2b

Owns = Callable[[str], bool]
"""Tell whether the sandbox of that id is this poller's to follow and read."""


def owns_all(sandbox_id: str) -> bool:
    """Own every sandbox, as the only poller does."""
    del sandbox_id
    return True


def owns_shard(index: int, count: int) -> Owns:
    """Own one of `count` shares, by rendezvous hashing: when the count grows, each poller only gives to the new one.

    An index at or beyond the count owns nothing.
    """

    def owns(sandbox_id: str) -> bool:
        return max(range(count), key=lambda each: _weight(each, sandbox_id)) == index

    return owns


def _weight(index: int, sandbox_id: str) -> bytes:
    """Return how much a poller wants a sandbox; the same on every machine and in every release."""
    return blake2b(f"{index}/{sandbox_id}".encode(), digest_size=8).digest()
