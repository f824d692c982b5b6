"""Reading a request's body within its bounds: raw bytes, decompressed bytes and time."""

import asyncio
import zlib

from aiohttp import StreamReader

READ_TIMEOUT_S = 10.0
"""How long a sender may take for its body; the Collector gives up at the same time."""

_GZIP = 16 + zlib.MAX_WBITS
_SLICE = 64 * 1024


class BodyTooLargeError(Exception):
    """The body, decompressed, is larger than the limit."""


class UnsupportedEncodingError(Exception):
    """The Content-Encoding is neither identity nor gzip."""


class DamagedBodyError(Exception):
    """The body is not the gzip stream that its Content-Encoding says, or it ends too early."""


async def read_body(content: StreamReader, encoding: str, limit: int) -> bytes:
    """Return the decompressed body of at most `limit` bytes.

    Raises BodyTooLargeError, UnsupportedEncodingError, DamagedBodyError, or TimeoutError for a slow sender. Never
    more than the limit is kept, however small the compressed form is.
    """
    match encoding.strip().lower():
        case "" | "identity":
            decompressor = None
        case "gzip":
            decompressor = zlib.decompressobj(_GZIP)
        case _:
            raise UnsupportedEncodingError
    body = bytearray()
    async with asyncio.timeout(READ_TIMEOUT_S):
        async for chunk in content.iter_any():
            if decompressor is None:
                body += chunk
            else:
                _decompress(decompressor, chunk, body, limit)
            if len(body) > limit:
                raise BodyTooLargeError
    if decompressor is not None and not decompressor.eof:
        raise DamagedBodyError
    return bytes(body)


def _decompress(decompressor: "zlib._Decompress", chunk: bytes, body: bytearray, limit: int) -> None:
    try:
        while chunk and len(body) <= limit:
            body += decompressor.decompress(chunk, _SLICE)
            chunk = decompressor.unconsumed_tail
    except zlib.error as error:
        raise DamagedBodyError from error
