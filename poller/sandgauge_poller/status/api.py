"""The page's JSON, and that of everybody else who wants it: read-only, below `/api/v1`."""

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web

from sandgauge_poller.status.fleet import Fleet, Standing
from sandgauge_poller.status.observation import Observation
from sandgauge_poller.status.overview import Overview
from sandgauge_poller.status.rows import Json, detailed_row, row
from sandgauge_poller.status.selection import SelectionError, parse_selection
from sandgauge_poller.tracking.active_set import Tracked

_WORTH_COMPRESSING = 1024


class Api:
    """Answers made in a thread, so that none holds up a reading; one at a time, so that many viewers do not either."""

    def __init__(self, fleet: Fleet, overview: Overview, observation: Observation) -> None:
        self._fleet = fleet
        self._observation = observation
        self._overview = overview
        self._one_at_a_time = asyncio.Lock()

    async def overview(self, _request: web.Request) -> web.Response:
        """Tell how poller and fleet are, and what leaked."""
        return await self._answer(self._overview.as_json)

    async def sandboxes(self, request: web.Request) -> web.Response:
        """List the sandboxes that the query asks for; 400 where it asks for what there is not."""
        try:
            selection = parse_selection(request.query)
        except SelectionError as error:
            return web.json_response({"error": str(error)}, status=HTTPStatus.BAD_REQUEST)

        def listed() -> Json:
            now_ns = self._fleet.now_ns()
            found = selection.of(self._fleet, now_ns)
            shown = found[selection.offset : selection.offset + selection.limit]
            return {
                "now": round(now_ns / 1e9, 3),
                "matched": len(found),
                "offset": selection.offset,
                "sandboxes": [row(sandbox, self._fleet.standing(sandbox, now_ns)) for sandbox in shown],
            }

        return await self._answer(listed)

    async def sandbox(self, request: web.Request) -> web.Response:
        """Tell all about the sandboxes of one id, one for each deployment that has it; 404 where none has."""
        found = self._fleet.with_id(request.match_info["sandbox_id"])
        if not found:
            error = "no sandbox of that id is followed: it is over, or its start span has not come"
            return web.json_response({"error": error}, status=HTTPStatus.NOT_FOUND)

        def told() -> Json:
            now_ns = self._fleet.now_ns()
            rows = [self._detailed(sandbox, self._fleet.standing(sandbox, now_ns)) for sandbox in found]
            return {"now": round(now_ns / 1e9, 3), "sandboxes": rows}

        return await self._answer(told)

    def _detailed(self, sandbox: Tracked, standing: Standing) -> Json:
        request_id = sandbox.keys.request_id
        request = self._observation.requested(request_id) if request_id is not None else None
        return detailed_row(sandbox, standing, request)

    async def _answer(self, make: Callable[[], Json]) -> web.Response:
        async with self._one_at_a_time:
            body = await asyncio.to_thread(lambda: _encoded(make()))
        answer = web.Response(body=body, content_type="application/json", headers={hdrs.CACHE_CONTROL: "no-store"})
        if len(body) > _WORTH_COMPRESSING:
            answer.enable_compression()
        return answer


_in_text = json.JSONEncoder(separators=(",", ":")).encode


def _encoded(told: Json) -> bytes:
    """Encode each row by itself: the event loop gets its turn between two calls of the encoder, and within none."""
    fields = (
        f"{_in_text(key)}:{_rows(value) if isinstance(value, list) else _in_text(value)}" for key, value in told.items()
    )
    return f"{{{','.join(fields)}}}".encode()


def _rows(rows: list[Any]) -> str:
    return f"[{','.join(map(_in_text, rows))}]"
