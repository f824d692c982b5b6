"""A Docker daemon's Engine API as far as the poller asks it, on a socket of its own; the test is master of it."""

import asyncio
import copy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiohttp import web

OLD, NEW = ("1.41", "20.10.24"), ("1.51", "28.5.2")
_ONE_SHOT = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "docker-stats" / "oneshot-v2" / "input.json").read_text(encoding="utf-8")
)[0]


@dataclass
class StubContainer:
    """One container; `hangs` makes it give no stats for ever."""

    id: str
    sandbox_id: str | None
    state: str = "running"
    cpu_time_ns: int = 6 * 10**9
    read: str = "2026-11-30T07:40:00.000000000Z"
    hangs: bool = False
    status: int = 200

    def stats(self) -> dict[str, Any]:
        answer: dict[str, Any] = copy.deepcopy(_ONE_SHOT)
        answer["id"], answer["read"] = self.id, self.read
        answer["cpu_stats"]["cpu_usage"]["total_usage"] = self.cpu_time_ns
        return answer


@dataclass
class StubEngine:
    """The daemon; `refused` are parts of paths that a proxy in front does not let through."""

    socket: Path
    version: tuple[str, str] = NEW
    containers: list[StubContainer] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    events: list[list[Any]] = field(default_factory=list)
    """What each connection to the stream tells before it ends; when there is nothing more it waits."""
    asked: list[str] = field(default_factory=list)
    since: list[str] = field(default_factory=list)
    answers_at: int = 1
    """So many must have asked for stats at the same time before the first is answered."""
    most_at_once: int = 0
    _at_once: int = 0
    _enough: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, self.socket).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if any(part in request.path for part in self.refused):
            return web.Response(status=403, text="not by this proxy")
        *_, last = request.path.split("/")
        match last:
            case "version":
                return web.json_response({"ApiVersion": self.version[0], "Version": self.version[1]})
            case "events":
                return await self._stream(request)
            case "stats":
                return await self._stats(request)
            case "json":
                return self._list(request)
            case _:
                return web.Response(status=404, text="page not found")

    def _list(self, request: web.Request) -> web.Response:
        *_, before, _ = request.path.split("/")
        if before != "containers":  # an inspection, for which there is nobody
            return _no_such_container(before)
        label = json.loads(request.query["filters"])["label"]
        assert (label, request.query["all"]) == (["opensandbox.io/id"], "1")
        return web.json_response([_listed(found) for found in self.containers if found.sandbox_id is not None])

    async def _stats(self, request: web.Request) -> web.StreamResponse:
        assert (request.query["stream"], request.query["one-shot"]) == ("false", "true")
        asked = request.path.split("/")[-2]
        found = [container for container in self.containers if container.id == asked]
        if not found:
            return _no_such_container(asked)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        if self.most_at_once >= self.answers_at:
            self._enough.set()
        try:
            await self._enough.wait()
            await asyncio.sleep(3600 if found[0].hangs else 0.01)
        finally:
            self._at_once -= 1
        answer = found[0].stats()
        if self.version == NEW:  # what samples directly does not say whose numbers it tells
            del answer["id"], answer["name"], answer["os_type"]
        return web.json_response(answer, status=found[0].status)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        self.since.append(request.query["since"])
        assert set(json.loads(request.query["filters"])["event"]) == {"oom", "start", "die"}
        response = web.StreamResponse()
        await response.prepare(request)
        if not self.events:
            await asyncio.Event().wait()
        for event in self.events.pop(0):
            line = event if isinstance(event, str) else json.dumps(event)
            await response.write(line.encode() + b"\n")
        return response


def _listed(container: StubContainer) -> dict[str, Any]:
    labels = {"opensandbox.io/id": container.sandbox_id}
    return {"Id": container.id, "Labels": labels, "State": container.state, "Created": 1_795_000_000}


def _no_such_container(id_: str) -> web.Response:
    return web.json_response({"message": f"No such container: {id_}"}, status=404)


@contextmanager
def served_in_thread(stub: StubEngine) -> Iterator[None]:
    """Serve it for whoever asks in a loop of its own, or in none."""
    started, ended = threading.Event(), asyncio.Event()
    loops = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with stub:
            started.set()
            await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(60)
        yield
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join()
