"""A Docker daemon's Engine API: bounded GETs in a version that both sides speak, and its stream of events."""

import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.connector import tcp_connector
from sandgauge_poller.reading.exchange import NO_ANSWER, Answer, BoundedSession, Bounds
from sandgauge_schemas.names import ErrorType

_NEWEST_API = (1, 44)
"""Newest version of the API that this client knows, which every newer daemon still serves."""

_MAX_LIST_BYTES = 64 * 1024**2
"""About 70,000 containers: one takes 0.9 kB (measured)."""

_MAX_ANSWER_BYTES = 1024**2
_KEEPALIVE_S = 60.0
_API = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})")
_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})")


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """What a daemon says it is; `release` such as (24, 0, 7), None where it tells none of that form."""

    api: tuple[int, int]
    release: tuple[int, int, int] | None


class Engine:
    """One daemon at `unix:///path` or an HTTP URL; questions are bounded and never raise for what it does.

    `tls` is for https alone. Needs a running loop. Bodies hold secrets of containers: none is logged or kept.
    """

    def __init__(self, endpoint: str, tls: ssl.SSLContext | None, *, timeout_s: float, clock: Clock) -> None:
        parts = urlsplit(endpoint)
        # The path of a socket is no host; the Engine takes any name in its place.
        self._base = "http://docker" if parts.scheme == "unix" else endpoint
        connector: aiohttp.BaseConnector
        if parts.scheme == "unix":
            connector = aiohttp.UnixConnector(parts.path, limit=0, keepalive_timeout=_KEEPALIVE_S)
        else:
            connector = tcp_connector(tls, keepalive_s=_KEEPALIVE_S)
        self._session = BoundedSession(connector, clock=clock, headers={})
        self._timeout_s = timeout_s
        self._clock = clock
        self._version: EngineVersion | None = None

    @property
    def version(self) -> EngineVersion | None:
        """What the daemon said it is, None until it was asked and told."""
        return self._version

    async def containers(self, label: str | None) -> Answer:
        """List all containers, those that do not run included; with a label only those that have it."""
        filters = {"label": [label]} if label else {}
        query = {"all": "1", "filters": json.dumps(filters)}
        return await self._get("/containers/json", query, Bounds(self._timeout_s, _MAX_LIST_BYTES))

    async def stats(self, container_id: str) -> Answer:
        """Ask for the numbers of a container as they are now, without the daemon's own second sample."""
        return await self._get(f"/containers/{container_id}/stats", {"stream": "false", "one-shot": "true"})

    async def inspect(self, container_id: str) -> Answer:
        """Ask for all that the daemon knows of a container: its environment, and so its secrets, included."""
        return await self._get(f"/containers/{container_id}/json", {})

    async def info(self) -> Answer:
        """Ask for what the daemon tells of itself and its machine."""
        return await self._get("/info", {})

    @asynccontextmanager
    async def events(
        self, filters: Mapping[str, Sequence[str]], since_ns: int
    ) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Open the stream of events from `since_ns` (ns since the epoch) on; raises StreamError."""
        if self._version is None:
            await self.negotiate()
        since = f"{since_ns // 10**9}.{since_ns % 10**9:09d}"
        url = self._url("/events", {"since": since, "filters": json.dumps(filters)})
        async with self._session.stream(url, self._bounds) as lines:
            yield (event async for line in lines if (event := parse_object(line)) is not None)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def negotiate(self) -> Answer:
        """Ask the daemon what it is, and speak its version from now on; a proxy may keep that from us."""
        url = URL(f"{self._base}/version")
        answer = await self._session.get(url, self._bounds, asked=self._clock.monotonic())
        if answer.error_type is None:
            self._version = _version(answer.body)
            if self._version is None:
                answer = replace(answer, error_type=ErrorType.UNRECOGNIZED_FORMAT)
        return answer

    @property
    def _bounds(self) -> Bounds:
        return Bounds(self._timeout_s, _MAX_ANSWER_BYTES)

    async def _get(self, path: str, query: Mapping[str, str], bounds: Bounds | None = None) -> Answer:
        asked = self._clock.monotonic()
        if self._version is None:
            told = await self.negotiate()
            if told.error_type in NO_ANSWER:
                return told
        answer = await self._session.get(self._url(path, query), bounds or self._bounds, asked=asked)
        if answer.error_type is ErrorType.CONNECTION or answer.status == HTTPStatus.BAD_REQUEST:
            self._version = None  # it may come back as another
        if answer.status == HTTPStatus.NOT_FOUND:
            return replace(answer, error_type=ErrorType.NOT_FOUND)
        return answer

    def _url(self, path: str, query: Mapping[str, str]) -> URL:
        version = self._version
        # Without a version the daemon answers in its own newest.
        prefix = "" if version is None else "/v{}.{}".format(*min(version.api, _NEWEST_API))
        return URL(f"{self._base}{prefix}{path}").with_query(dict(query))


def _version(body: bytes) -> EngineVersion | None:
    said = parse_object(body) or {}
    api, release = said.get("ApiVersion"), said.get("Version")
    found = _API.fullmatch(api) if isinstance(api, str) else None
    if found is None:
        return None
    numbers = _RELEASE.match(release) if isinstance(release, str) else None
    return EngineVersion(
        api=(int(found[1]), int(found[2])),
        release=(int(numbers[1]), int(numbers[2]), int(numbers[3])) if numbers else None,
    )
