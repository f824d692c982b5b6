"""One bounded GET: time, size, redirects, encodings and errors are all settled here, and nothing is raised."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_schemas.names import ErrorType
from sandgauge_schemas.version import __version__

NO_ANSWER = (ErrorType.CONNECTION, ErrorType.TIMEOUT)
"""Outcomes of a server that said nothing at all."""

HEADERS = {
    "User-Agent": f"sandgauge-poller/{__version__}",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
}
"""What each question says."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds from send to last byte, and bytes of body."""

    timeout_s: float
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one GET gave; no error type means 200 and a whole body. The body may hold secrets and is never shown."""

    window: ReadWindow
    error_type: ErrorType | None = None
    status: int | None = None
    body: bytes = field(default=b"", repr=False)


class StreamError(Exception):
    """A lasting answer could not be had, or ended with an error."""

    def __init__(self, error_type: ErrorType) -> None:
        super().__init__(error_type.value)
        self.error_type = error_type


class BoundedSession:
    """A session that keeps no cookies and heeds no proxy of the environment; needs a running loop.

    `connector` says how servers are reached, and whether their number is limited; the session closes it.
    `server_hostname` is what their certificates must name where that is not the URL's host.
    """

    def __init__(
        self,
        connector: aiohttp.BaseConnector,
        *,
        clock: Clock,
        headers: Mapping[str, str],
        server_hostname: str | None = None,
    ) -> None:
        self._clock = clock
        self._server_hostname = server_hostname
        # Each question brings a bound of its own.
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            headers={**HEADERS, **headers},
            auto_decompress=False,
            trust_env=False,
        )
        # The library sends a GET whose connection breaks a second time, past every rate and without a word.
        self._session._retry_connection = False  # noqa: SLF001  # there is no public way

    async def get(
        self,
        url: URL,
        bounds: Bounds,
        *,
        asked: float,
        headers: Mapping[str, str] | tuple[tuple[str, str], ...] = (),
    ) -> Answer:
        """Ask once. `asked`, in monotonic seconds, is when the question came up."""
        began, start_ns = self._clock.monotonic(), self._clock.now_ns()
        status: int | None = None
        body = b""
        failure: ErrorType | None = None
        try:
            async with self._session.get(
                url,
                headers=headers,
                allow_redirects=False,
                server_hostname=self._server_hostname,
                timeout=_whole(bounds.timeout_s),
            ) as response:
                status = response.status
                body, failure = await _read_body(response, bounds.max_bytes)
        except TimeoutError:
            failure = ErrorType.TIMEOUT
        except aiohttp.ClientResponseError:
            failure = ErrorType.UNRECOGNIZED_FORMAT
        except (aiohttp.ClientError, OSError):
            failure = ErrorType.CONNECTION
        window = ReadWindow(start_ns, start_ns + int((self._clock.monotonic() - began) * 1e9), began - asked)
        # A status other than 200 tells more than what became of its body.
        return Answer(window=window, error_type=error_of(status) or failure, status=status, body=body)

    @asynccontextmanager
    async def stream(self, url: URL, bounds: Bounds) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open an answer that lasts, within the time, and give its lines as they come, each within the size.

        Raises:
            StreamError: There is no such answer, or it broke off.

        """
        try:
            async with (
                asyncio.timeout(bounds.timeout_s) as opening,
                self._session.get(
                    url, allow_redirects=False, server_hostname=self._server_hostname, read_bufsize=bounds.max_bytes
                ) as response,
            ):
                opening.reschedule(None)
                error_type = error_of(response.status)
                if error_type is not None:
                    raise StreamError(error_type)
                yield aiter(response.content)
        except TimeoutError as error:
            raise StreamError(ErrorType.TIMEOUT) from error
        except (ValueError, HttpProcessingError) as error:  # a line beyond the size, by versions of the library
            raise StreamError(ErrorType.BODY_TOO_LARGE) from error
        except (aiohttp.ClientError, OSError) as error:
            raise StreamError(ErrorType.CONNECTION) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


@cache
def _whole(timeout_s: float) -> aiohttp.ClientTimeout:
    """Return a bound on a question as a whole; unlike the library's own, never rounded up to a whole second."""
    return aiohttp.ClientTimeout(total=timeout_s, sock_connect=None, ceil_threshold=math.inf)


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, ErrorType | None]:
    if (response.headers.get("Content-Encoding") or "identity").lower() != "identity":
        # It was not asked for, and unpacking it would need a bound of its own.
        return b"", ErrorType.UNRECOGNIZED_FORMAT
    if (response.content_length or 0) > max_bytes:
        return b"", ErrorType.BODY_TOO_LARGE
    body = bytearray()
    while chunk := await response.content.readany():
        body += chunk
        if len(body) > max_bytes:
            return b"", ErrorType.BODY_TOO_LARGE
    return bytes(body), None


def error_of(status: int | None) -> ErrorType | None:
    """Return what a status other than 200 means."""
    if status is None or status == HTTPStatus.OK:
        return None
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return ErrorType.UNAUTHORIZED
    redirected = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
    return ErrorType.REDIRECT if redirected else ErrorType.HTTP_ERROR
