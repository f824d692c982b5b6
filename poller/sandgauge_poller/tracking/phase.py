"""Each sandbox's own place within an interval."""

import hashlib

_PLACES = 2048
"""Many sandboxes share a place, and each waking then starts several readings; 5 ms of 10 s are soon enough."""


def phase(sandbox_id: str) -> float:
    """Return the sandbox's place within an interval, 0 to below 1: a hash of its id spreads a fleet evenly."""
    digest = hashlib.blake2b(sandbox_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") * _PLACES // 2**64 / _PLACES
