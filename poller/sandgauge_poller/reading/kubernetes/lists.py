"""Lists of pods of an API server: page by page, each condensed in a thread to what is wanted of it."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import Answer
from sandgauge_poller.reading.kubernetes.client import ApiServer
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_schemas.names import ErrorType

Condensed = TypeVar("Condensed")

_LISTS_AT_ONCE = 4
"""As many answers are in memory at once, each within its bound."""

_MOST_PAGES = 200


@dataclass(frozen=True, slots=True)
class Page(Generic[Condensed]):
    """What is wanted of one page, by the pod's name, and the token of the page that follows, empty after the last."""

    pods: dict[str, Condensed]
    following: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[Condensed]):
    """What came of a list; `status` is that of its last answer, None where there was none."""

    window: ReadWindow
    error_type: ErrorType | None = None
    status: int | None = None
    pods: dict[str, Condensed] = field(default_factory=dict)


class PodLists:
    """Lists of one API server. Construct it in a running loop, and close it in the same."""

    def __init__(self, server: ApiServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._slots = asyncio.Semaphore(_LISTS_AT_ONCE)
        # One thread: more of them would hold more lists in memory at once, and compute no faster.
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="pod-lists")

    async def fetch(
        self, path: str, parse: Callable[[bytes], Page[Condensed] | None], *, page_size: int | None = None
    ) -> Listing[Condensed]:
        """Ask for a list, in pages of a size or whole; it is begun anew, once, where it expires in between."""
        asked = self._clock.monotonic()
        async with self._slots:
            listing = await self._follow(path, parse, page_size, asked)
            if listing.status == HTTPStatus.GONE:
                # The token that comes with it goes on with another state of the cluster than it began with.
                listing = await self._follow(path, parse, page_size, asked)
        return listing

    async def probe(self, path: str, parse: Callable[[bytes], Page[Condensed] | None]) -> Listing[Condensed]:
        """Ask for as little of a list as its server gives: to see whether it does."""
        answer = await self._server.get(path, {"limit": "1"}, asked=self._clock.monotonic())
        page = await self._read(answer, parse)
        error_type = page if isinstance(page, ErrorType) else None
        return Listing(window=answer.window, error_type=error_type, status=answer.status)

    async def close(self) -> None:
        """Close the connections; a list that is being read is read to its end, which nobody waits for."""
        self._parser.shutdown(wait=False, cancel_futures=True)
        await self._server.close()

    async def _follow(
        self, path: str, parse: Callable[[bytes], Page[Condensed] | None], page_size: int | None, asked: float
    ) -> Listing[Condensed]:
        pods: dict[str, Condensed] = {}
        query = {} if page_size is None else {"limit": str(page_size)}
        answer = await self._server.get(path, query, asked=asked)
        start = answer.window
        for _ in range(_MOST_PAGES):
            window = replace(start, end_ns=answer.window.end_ns)
            page = await self._read(answer, parse)
            if isinstance(page, ErrorType):
                return Listing(window=window, error_type=page, status=answer.status)
            pods.update(page.pods)
            if not page.following:
                return Listing(window=window, status=answer.status, pods=pods)
            answer = await self._server.get(path, {**query, "continue": page.following}, asked=asked)
        return Listing(window=start, error_type=ErrorType.BODY_TOO_LARGE, status=answer.status)

    async def _read(
        self, answer: Answer, parse: Callable[[bytes], Page[Condensed] | None]
    ) -> Page[Condensed] | ErrorType:
        if answer.error_type is not None:
            return answer.error_type
        page = await asyncio.get_running_loop().run_in_executor(self._parser, parse, answer.body)
        return page or ErrorType.UNRECOGNIZED_FORMAT


def read_page(
    body: bytes, kind: str, mark: str, condense: Callable[[dict[str, Any]], tuple[str, Condensed] | None]
) -> Page[Condensed] | None:
    """Return a page of a list of that kind, or None where the body is none. Meant for a thread.

    `mark` is a key of pods. Each object with it is condensed as soon as the parser has read it: so a list takes little
    more memory than its text, and the parser, which else would hold the interpreter until its end, lets other threads
    run in between.
    """

    def hook(found: dict[str, Any]) -> object:
        return condense(found) if mark in found else found

    try:
        top = json.loads(body, object_hook=hook)
    except (ValueError, RecursionError):
        return None
    items = (top.get("items") or []) if isinstance(top, dict) and top.get("kind") == kind else None
    if not isinstance(items, list):
        return None
    metadata = top.get("metadata")
    following = metadata.get("continue") if isinstance(metadata, dict) else None
    pods: dict[str, Condensed] = dict(item for item in items if isinstance(item, tuple))
    return Page(pods, following if isinstance(following, str) else "")
