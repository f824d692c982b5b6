"""Reading a request's body within its bounds: raw bytes, decompressed bytes and time."""

import asyncio
import zlib
from http import HTTPStatus
from types import TracebackType
from typing import ClassVar, Self

from aiohttp import StreamReader

READ_TIMEOUT_S = 10.0
"""How long a sender may take for its body; the Collector gives up at the same time."""

_GZIP = 16 + zlib.MAX_WBITS
_SLICE = 64 * 1024


class BodyError(Exception):
    """A body that cannot be taken: the text says why, `status` is how to answer."""

    status: ClassVar[HTTPStatus]


class BodyTooLargeError(BodyError):
    """The body, decompressed, is larger than the limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE


class UnsupportedEncodingError(BodyError):
    """The Content-Encoding is neither identity nor gzip."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class DamagedBodyError(BodyError):
    """The body is not one whole gzip stream, as its Content-Encoding says."""

    status = HTTPStatus.BAD_REQUEST


class UnfinishedBodyError(BodyError):
    """The sender was too slow, or left before the end; it may try again."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class NoRoomError(BodyError):
    """All bodies in work together are larger than there is room for; the sender may try again."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


class Lease:
    """The room that one body takes."""

    def __init__(self, room: "Room") -> None:
        self._room = room
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._room.free += self._bytes

    def take(self, size: int) -> None:
        """Take so many bytes more; raises NoRoomError."""
        if size > self._room.free:
            raise NoRoomError("too many large requests at once")
        self._room.free -= size
        self._bytes += size


class Room:
    """So many bytes for all the bodies that are in work; `free` of them are left."""

    def __init__(self, size: int) -> None:
        self.free = size

    def lease(self) -> Lease:
        """Return what one body takes its room from, and gives it back to when it is left."""
        return Lease(self)


async def read_body(content: StreamReader, encoding: str, limit: int, lease: Lease) -> bytes:
    """Return the decompressed body of at most `limit` bytes, its room taken from `lease`; raises BodyError.

    Never more than the limit is kept, however small the compressed form is.
    """
    match encoding.strip().lower():
        case "" | "identity":
            decompressor = None
        case "gzip":
            decompressor = zlib.decompressobj(_GZIP)
        case _:
            raise UnsupportedEncodingError("send gzip or no Content-Encoding")
    body = _Body(limit, lease)
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            async for chunk in content.iter_any():
                if decompressor is None:
                    body.add(chunk)
                else:
                    _decompress(decompressor, chunk, body)
    except TimeoutError as error:
        raise UnfinishedBodyError("the body came too slowly") from error
    except ConnectionError as error:
        raise UnfinishedBodyError("the sender left before the end of the body") from error
    if decompressor is not None and (not decompressor.eof or decompressor.unused_data):
        raise DamagedBodyError("the body is not one whole gzip stream")
    return body.joined()


class _Body:
    """Pieces of a body, refused once they are more than the limit: one that is too large is never put together."""

    def __init__(self, limit: int, lease: Lease) -> None:
        self._limit = limit
        self._lease = lease
        self._size = 0
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise BodyTooLargeError(f"the body is over {self._limit} bytes, decompressed")
        self._lease.take(len(piece))
        self._pieces.append(piece)

    def joined(self) -> bytes:
        return b"".join(self._pieces)


def _decompress(decompressor: "zlib._Decompress", chunk: bytes, body: _Body) -> None:
    if decompressor.eof:
        # What follows the end of the stream would be kept by the decompressor, without bound.
        raise DamagedBodyError("the body goes on after its gzip stream")
    try:
        while chunk:
            body.add(decompressor.decompress(chunk, _SLICE))
            chunk = decompressor.unconsumed_tail
    except zlib.error as error:
        raise DamagedBodyError("the body is not a gzip stream") from error
