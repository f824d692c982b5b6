"""Requests to the poller's ingest port, as fast as it answers them, over a few connections."""

import asyncio
import gzip
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import uvloop

from support.otlp_encodings import to_protobuf

_OK = b"HTTP/1.1 200 "


@dataclass(frozen=True, slots=True)
class Sent:
    """How long all took, and each from its first byte to the answer's end; in seconds."""

    seconds: float
    answers_s: Sequence[float]


def request(endpoint: str, message: dict[str, Any], encoding: str) -> bytes:
    """Return the bytes of one export of spans, packed as a Collector packs them; `encoding` is protobuf or json."""
    body = gzip.compress(to_protobuf(message) if encoding == "protobuf" else json.dumps(message).encode())
    media_type = "application/x-protobuf" if encoding == "protobuf" else "application/json"
    head = (
        f"POST /v1/traces HTTP/1.1\r\nHost: {urlsplit(endpoint).netloc}\r\nContent-Type: {media_type}\r\n"
        f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def send_all(endpoint: str, requests: Sequence[bytes], connections: int) -> Sent:
    """Send each request once and insist on 200; a connection sends its next when the one before was answered."""
    return uvloop.run(_send_all(endpoint, requests, connections))


async def _send_all(endpoint: str, requests: Sequence[bytes], connections: int) -> Sent:
    waiting = iter(requests)
    answers_s: list[float] = []

    async def send() -> None:
        parts = urlsplit(endpoint)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for each in waiting:
            began = time.monotonic()
            writer.write(each)
            await _take_ok(reader)
            answers_s.append(time.monotonic() - began)
        writer.close()

    began = time.monotonic()
    await asyncio.gather(*(send() for _ in range(connections)))
    return Sent(time.monotonic() - began, answers_s)


async def _take_ok(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(_OK):
        raise RuntimeError(f"the poller answered {head.splitlines()[0].decode()}")
    length = next(line for line in head.lower().splitlines() if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
