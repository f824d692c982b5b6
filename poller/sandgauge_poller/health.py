"""Whether a server says that it is well, asked from within the container of the product."""

import http.client
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

_TIMEOUT_S = 3.0


def complaint(url: str) -> str | None:
    """Ask with one GET, and say what is wrong in place of an answer of 200; None for such an answer.

    No proxy is used, and no redirect followed.
    """
    try:
        parts = urlsplit(url)
        connection = _connection(parts.scheme)(parts.netloc, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", parts.path or "/")
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    return None if status == HTTPStatus.OK else f"it answers {status}"


def _connection(scheme: str) -> Callable[..., http.client.HTTPConnection]:
    return http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
