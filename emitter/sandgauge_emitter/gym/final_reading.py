"""The reading before deletion: the poller is asked to read a sandbox once more while it is still there."""

import asyncio
import os
import re
import ssl
from functools import cache
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from sandgauge_emitter.faults import FAULTS
from sandgauge_emitter.gym.addresses import addresses_of

ENDPOINT_VARIABLE = "SANDGAUGE_POLLER_ENDPOINT"
TOKEN_VARIABLE = "SANDGAUGE_POLLER_TOKEN"  # noqa: S105  # the name of a variable, not a token
TIMEOUT_S = 2.0
"""How long a deletion waits at most."""

_PORTS = {"http": 80, "https": 443}
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
# The poller has read it, or will not.
_FINE = (HTTPStatus.OK, HTTPStatus.ACCEPTED)


def is_wanted() -> bool:
    """Whether a poller is there to be asked."""
    return bool(os.environ.get(ENDPOINT_VARIABLE))


async def before_deletion(sandbox_id: str) -> None:
    """Ask the poller to read the sandbox, and wait for it, though never longer than `TIMEOUT_S`.

    Raises:
        OSError: The poller is down, or took too long (TimeoutError).
        ValueError: The endpoint is none, or the answer is not HTTP.

    """
    async with asyncio.timeout(TIMEOUT_S):
        status = await _post(os.environ[ENDPOINT_VARIABLE], f"/v1/sandboxes/{quote(sandbox_id, safe='')}/final-reading")
    if status not in _FINE:
        FAULTS.note(f"final reading: the poller answered {status}")


async def _post(endpoint: str, path: str) -> int:
    """Send an empty POST on a connection of its own and return the status; nothing is followed."""
    url = urlsplit(endpoint)
    if url.scheme not in _PORTS or url.hostname is None:
        raise ValueError(f"{ENDPOINT_VARIABLE} is no http or https URL")
    # Loading the machine's certificates takes a while.
    tls = await asyncio.to_thread(_tls) if url.scheme == "https" else None
    reader, writer = await _connect(url.hostname, url.port or _PORTS[url.scheme], tls)
    try:
        writer.write(_head(url.netloc.rpartition("@")[2], url.path.rstrip("/") + path))
        await writer.drain()
        status_line = await reader.readline()
    finally:
        writer.transport.abort()
    found = _STATUS_LINE.match(status_line)
    if found is None:
        raise ValueError("the answer is not HTTP")
    return int(found[1])


async def _connect(
    host: str, port: int, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the host's addresses that answers."""
    failure = OSError("the poller's host has no address")
    for address in await addresses_of(host):
        try:
            return await asyncio.open_connection(address, port, ssl=tls, server_hostname=host if tls else None)
        except OSError as error:
            failure = error
    raise failure


def _head(host: str, target: str) -> bytes:
    token = os.environ.get(TOKEN_VARIABLE)
    lines = [f"POST {target} HTTP/1.1", f"Host: {host}", "Content-Length: 0", "Connection: close"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if not all(line.isprintable() for line in lines):
        raise ValueError(f"{ENDPOINT_VARIABLE} or {TOKEN_VARIABLE} holds what no HTTP header can")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
