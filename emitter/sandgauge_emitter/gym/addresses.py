"""Looking a host name up without the loop's own threads: a resolver that hangs must hold neither them nor the end."""

import asyncio
import ipaddress
import os
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass

KEPT_S = 60.0
"""How long an answer is used again."""

_LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class _LookUp:
    began_s: float
    addresses: Future[list[str]]


_look_ups: dict[str, _LookUp] = {}
# In a child the thread that would answer does not exist.
os.register_at_fork(after_in_child=_look_ups.clear)


async def addresses_of(host: str) -> list[str]:
    """Return the IP addresses of a host, the preferred one first; one look-up at a time serves all who ask.

    Raises:
        OSError: The name is not known.

    """
    if _is_address(host):
        return [host]
    found = _look_ups.get(host)
    if found is None or (found.addresses.done() and not _is_fresh(found)):
        found = _look_ups[host] = _LookUp(time.monotonic(), Future())
        threading.Thread(target=_resolve, args=(host, found.addresses), name="sandgauge-lookup", daemon=True).start()
    # Looked at now and then: an answer that comes after its loop has ended must have nobody to call.
    while not found.addresses.done():  # noqa: ASYNC110  # for that reason
        await asyncio.sleep(_LOOK_S)
    return found.addresses.result()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_fresh(found: _LookUp) -> bool:
    return found.addresses.exception() is None and time.monotonic() - found.began_s < KEPT_S


def _resolve(host: str, answer: Future[list[str]]) -> None:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        answer.set_exception(OSError(f"the poller's host is not known ({type(error).__name__})"))
    else:
        answer.set_result([str(address[0]) for *_, address in found])
