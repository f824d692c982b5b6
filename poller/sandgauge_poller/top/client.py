"""Asking a running poller for its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from sandgauge_poller.config import ClientTls
from sandgauge_poller.doctor.caller import Caller
from sandgauge_poller.export.collector_client import NoAnswerError
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.status.selection import Selection

_ROWS = 200
"""Rows of one answer: with their plots well below what is taken of a body."""


class PollerError(Exception):
    """There is no poller to ask; the message names where, and the cure."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was answered: the overview, how many sandboxes match, and the rows of the first of them."""

    overview: Mapping[str, Any]
    matched: int
    sandboxes: list[Mapping[str, Any]]


class Client:
    """Asks one poller, as a context manager; an empty token shows none."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._caller = Caller(url, {"Authorization": f"Bearer {token}"} if token else {}, ClientTls())

    def __enter__(self) -> Self:
        self._caller.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._caller.__exit__(kind, error, traceback)

    def look(self, selection: Selection, most: int | None) -> Look:
        """Ask for the overview and at most so many rows, None for all; raises PollerError."""
        overview = self._get("/api/v1/overview")
        sandboxes: list[Mapping[str, Any]] = []
        while True:
            limit = _ROWS if most is None else min(_ROWS, most - len(sandboxes))
            query = {
                "q": selection.text,
                "show": selection.show.value,
                "sort": selection.sort.value,
                "order": selection.order.value,
                "offset": len(sandboxes),
                "limit": limit,
            }
            answer = self._get(f"/api/v1/sandboxes?{urlencode(query)}")
            sandboxes += answer["sandboxes"]
            if not answer["sandboxes"] or len(sandboxes) >= answer["matched"] or len(sandboxes) == most:
                return Look(overview, answer["matched"], sandboxes)

    def _get(self, path: str) -> dict[str, Any]:
        try:
            answer = self._caller.get(path)
        except NoAnswerError as error:
            cure = "start one with sandgauge run, or say with --endpoint where it is"
            raise PollerError(f"no poller answers at {self._url} ({error}); {cure}") from error
        if answer.status == HTTPStatus.UNAUTHORIZED:
            cure = "name the poller's configuration with --config, or set SANDGAUGE_STATUS_TOKEN"
            raise PollerError(f"{self._url} wants the token of its status.auth; {cure}")
        found = parse_object(answer.body) if answer.status == HTTPStatus.OK else None
        if found is None:
            cure = "name the address of status.endpoint, of a poller that is as new as this one"
            raise PollerError(f"what answers at {self._url} is no poller with a page ({answer.status}); {cure}")
        return found
