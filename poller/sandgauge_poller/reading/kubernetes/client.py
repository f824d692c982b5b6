"""Bounded GETs to one API server as one user."""

from collections.abc import Mapping
from http import HTTPStatus

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.connector import tcp_connector
from sandgauge_poller.reading.exchange import Answer, BoundedSession, Bounds
from sandgauge_poller.reading.kubernetes.credentials import Credentials

MAX_ANSWER_BYTES = 16 * 1024**2
"""A list of 5,000 pods with two containers takes 2.2 MB of metrics; a page of 500 pods 1.7 MB and more."""

_KEEPALIVE_S = 60.0


class ApiServer:
    """What is asked carries the user's credentials and goes to the one server; needs a running loop."""

    def __init__(self, credentials: Credentials, *, timeout_s: float, clock: Clock) -> None:
        self._base = credentials.server
        self._token = credentials.token
        self._bounds = Bounds(timeout_s, MAX_ANSWER_BYTES)
        self._session = BoundedSession(
            tcp_connector(credentials.tls, keepalive_s=_KEEPALIVE_S),
            clock=clock,
            headers={"Accept": "application/json"},
            server_hostname=credentials.server_hostname,
        )

    async def get(self, path: str, query: Mapping[str, str], *, asked: float) -> Answer:
        """Ask once. `path` starts without a slash; `asked`, in monotonic seconds, is when the question came up."""
        url = self._base / path % dict(query)
        answer = await self._session.get(url, self._bounds, asked=asked, headers=self._token.headers())
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self._token.refused()
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
