"""The real ingest server on a loopback port, in front of a commit that the test is master of."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from sandgauge_poller.ingest.events import LifecycleEvent
from sandgauge_poller.ingest.final_reading import FinalReading
from sandgauge_poller.ingest.intake import Intake
from sandgauge_poller.ingest.quarantine import Quarantine
from sandgauge_poller.ingest.server import IngestServer, IngestSettings
from sandgauge_schemas.names import ConflictKind, SpanOutcome

NOW_NS = 1_795_000_010_000_000_000
"""Ten seconds after the spans of the fixtures."""

FIXTURES = Path(__file__).parents[2] / "fixtures" / "ingest"


@dataclass
class Metrics:
    """What the server counts."""

    spans_: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    conflicts: Counter[str] = field(default_factory=Counter)

    def spans(self, outcome: SpanOutcome, reason: str | None, count: int) -> None:
        self.spans_[outcome.value, None if reason is None else str(reason)] += count

    def conflict(self, kind: ConflictKind) -> None:
        self.conflicts[kind.value] += 1


@dataclass
class Committer:
    """Keeps the events; holds them while `open` is clear, and fails with `error`."""

    events: list[LifecycleEvent] = field(default_factory=list)
    outcome: SpanOutcome = SpanOutcome.ACCEPTED
    error: Exception | None = None
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, events: Sequence[LifecycleEvent]) -> list[SpanOutcome]:
        self.entered.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        self.events += events
        return [self.outcome] * len(events)


@dataclass
class FinalReader:
    """Says what it is told to; hangs while `open` is clear, and fails with `error`."""

    outcome: FinalReading = FinalReading.RECORDED
    error: Exception | None = None
    asked: list[str] = field(default_factory=list)
    entered: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, sandbox_id: str) -> FinalReading:
        self.asked.append(sandbox_id)
        self.entered.release()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return self.outcome


@dataclass
class Answer:
    status: int
    headers: Any
    body: bytes


@dataclass
class Ingest:
    """A running server and a client of it."""

    address: tuple[str, int]
    http: aiohttp.ClientSession
    commit: Committer
    metrics: Metrics
    reader: FinalReader

    @property
    def events(self) -> list[LifecycleEvent]:
        return self.commit.events

    @property
    def sandbox_ids(self) -> list[str | None]:
        return [event.record.keys.sandbox_id for event in self.events if hasattr(event, "record")]

    async def post(self, body: Any, content_type: str | None = "application/json", **headers: str) -> Answer:
        url = "http://{}:{}/v1/traces".format(*self.address)
        all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            all_headers["Content-Type"] = content_type
        skip = ["Content-Type"] if content_type is None else []
        async with self.http.post(url, data=body, headers=all_headers, skip_auto_headers=skip) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def post_final_reading(self, sandbox_id: str = "s-1", body: bytes = b"", **headers: str) -> Answer:
        """Ask for a reading before deletion; the id goes into the path as it is."""
        url = "http://{}:{}/v1/sandboxes/{}/final-reading".format(*self.address, sandbox_id)
        async with self.http.post(URL(url, encoded=True), data=body, headers=headers) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def post_json(self, request: Any, **headers: str) -> Answer:
        return await self.post(json.dumps(request).encode(), **headers)

    async def post_file(self, name: str, content_type: str = "application/json") -> Answer:
        return await self.post((FIXTURES / name).read_bytes(), content_type)


@pytest.fixture
async def start_ingest(tmp_path):
    """Start servers; a body may have a mebibyte unless told otherwise."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))

        async def start(*, now_ns: int = NOW_NS, **settings: Any) -> Ingest:
            quarantine = Quarantine(settings.pop("quarantine", tmp_path / "quarantine"), lambda: now_ns)
            chosen = {
                "host": "127.0.0.1",
                "port": 0,
                "max_body_size": 2**20,
                "bearer_token": "",
                "tls": None,
                **settings,
            }
            commit, metrics = Committer(), Metrics()
            commit.open.set()
            reader = FinalReader()
            reader.open.set()
            intake = Intake(commit, metrics, quarantine, lambda: now_ns)
            server = IngestServer(IngestSettings(**chosen), intake, reader)
            address = await server.start()
            stack.push_async_callback(server.stop)
            return Ingest(address, http, commit, metrics, reader)

        yield start


@pytest.fixture
async def ingest(start_ingest) -> AsyncIterator[Ingest]:
    """One server with its defaults."""
    return await start_ingest()


@pytest.fixture
def silent_log(caplog):
    """Fail the test for anything logged at WARNING or above."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.getMessage() for record in caplog.get_records("call")] == []
