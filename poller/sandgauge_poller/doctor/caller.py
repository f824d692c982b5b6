"""Bounded GETs to one server."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import requests
import urllib3

from sandgauge_poller.config import ClientTls
from sandgauge_poller.export.collector_client import NoAnswerError, bare_session, reason_of

_TIMEOUT_S = 5.0
_MAX_BYTES = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Status, the `Date` header, and the body as far as it was read; neither of the last two is ever shown."""

    status: int
    date: str = field(repr=False)
    body: bytes = field(repr=False)


class Caller:
    """Asks one server, as a context manager; takes nothing from the environment and follows no redirect."""

    def __init__(self, base_url: str, headers: Mapping[str, str], tls: ClientTls) -> None:
        self._base_url = base_url
        self._session = bare_session(tls.ca_file, insecure_skip_verify=tls.insecure_skip_verify)
        self._session.headers.update({**headers, "Accept-Encoding": "identity"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.close()

    def get(self, path: str) -> Answer:
        """Ask once, for about five seconds; raises NoAnswerError."""
        deadline = time.monotonic() + _TIMEOUT_S
        try:
            with self._session.get(
                self._base_url + path, timeout=_TIMEOUT_S, allow_redirects=False, stream=True
            ) as response:
                body = b""
                while len(body) < _MAX_BYTES and time.monotonic() < deadline:
                    more = response.raw.read1(_MAX_BYTES - len(body))
                    if not more:
                        break
                    body += more
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise NoAnswerError(reason_of(error)) from error
        return Answer(status=response.status_code, date=response.headers.get("Date", ""), body=body)


def is_about_tls(error: NoAnswerError) -> bool:
    """Say whether it was the certificate, or that one side speaks no TLS."""
    return isinstance(error.__cause__, requests.exceptions.SSLError)
