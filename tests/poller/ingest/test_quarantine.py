"""A request that brings out an error of ours each time is set aside, and does not stop the feed."""

import gzip
import json
import sqlite3
import stat

import pytest

from sandgauge_poller.ingest import quarantine as quarantine_module
from sandgauge_poller.ingest import understanding
from sandgauge_poller.ingest.events import NotStoredError
from sandgauge_poller.ingest.quarantine import FAILURES, MOST_BODIES, Quarantine
from sandgauge_schemas import names
from support.otlp_encodings import to_protobuf
from support.otlp_json import from_resource, span, traces

JSON, PROTOBUF = "application/json", "application/x-protobuf"
REQUEST = traces(from_resource({}, span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "poison"})))
OTHER = traces(from_resource({}, span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "s-1"})))
BODIES = {JSON: json.dumps(REQUEST).encode(), PROTOBUF: to_protobuf(REQUEST)}
SECRET = "k3y-that-the-error-quotes"


class UnforeseenError(Exception):
    """An error of ours that nobody thought of."""


@pytest.fixture(autouse=True)
def fails_at_poison(monkeypatch):
    """Let the step from span to event break at one sandbox."""
    interpret = understanding.interpret

    def break_at(span, received_ns):
        if span.attributes.get(names.NEMO_GYM_SANDBOX_ID) == "poison":
            raise UnforeseenError(SECRET)
        return interpret(span, received_ns)

    monkeypatch.setattr(understanding, "interpret", break_at)


@pytest.mark.parametrize("content_type", [JSON, PROTOBUF])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_the_third_failure_sets_a_body_aside_and_the_feed_goes_on(ingest, tmp_path, caplog, content_type, packed):
    body = BODIES[content_type]
    sent, headers = (gzip.compress(body), {"Content_Encoding": "gzip"}) if packed else (body, {})
    for _ in range(FAILURES - 1):
        answer = await ingest.post(sent, content_type, **headers)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert (await ingest.post_json(OTHER)).status == 200
    assert ingest.metrics.spans_["quarantined", "unforeseen_error"] == 0
    caplog.clear()
    answer = await ingest.post(sent, content_type, **headers)
    assert answer.status == 200
    assert ingest.metrics.spans_["quarantined", "unforeseen_error"] == 1
    (record,) = caplog.records
    (kept,) = (tmp_path / "quarantine").glob("*.body")
    about = kept.with_suffix(".json")
    assert str(kept) in record.getMessage()
    assert kept.read_bytes() == body
    assert json.loads(about.read_text()) == {
        "time": "2026-11-18T11:06:50+00:00",
        "content_type": content_type,
        "bytes": len(body),
        "error_type": f"{__name__}.UnforeseenError",
    }
    assert SECRET not in record.getMessage() + caplog.text
    assert {stat.S_IMODE(path.stat().st_mode) for path in (kept, about)} == {0o600}
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "error",
    [NotStoredError("no room"), sqlite3.OperationalError("database or disk is full"), OSError("disk"), TimeoutError()],
)
async def test_a_store_in_trouble_makes_no_body_poison(ingest, tmp_path, error):
    ingest.commit.error = error
    for _ in range(3 * FAILURES):
        assert (await ingest.post_json(OTHER)).status == 503
    assert not (tmp_path / "quarantine").exists()
    ingest.commit.error = None
    assert (await ingest.post_json(OTHER)).status == 200
    assert ingest.sandbox_ids == ["s-1"]


async def test_different_bodies_are_not_taken_for_one(ingest, tmp_path):
    for number in range(3 * FAILURES):
        assert (await ingest.post(BODIES[JSON] + b" " * number)).status == 503
    assert not (tmp_path / "quarantine").exists()


async def test_a_folder_that_cannot_be_written_stops_no_feed(ingest, tmp_path, caplog):
    (tmp_path / "quarantine").write_text("a file where the folder would be")
    statuses = [(await ingest.post(BODIES[JSON])).status for _ in range(FAILURES)]
    assert statuses == [503] * (FAILURES - 1) + [200]
    assert str(tmp_path / "quarantine") in caplog.records[-1].getMessage()


async def fail(quarantine, body):
    return [await quarantine.takes(JSON, body, KeyError(SECRET)) for _ in range(FAILURES)]


class Clock:
    """A clock that ticks at each look."""

    def __init__(self):
        self.now_ns = 1_795_000_000_000_000_000

    def __call__(self):
        self.now_ns += 1
        return self.now_ns


def bodies(folder):
    return [file.read_bytes() for file in sorted(folder.glob("*.body"))]


async def test_the_oldest_body_makes_room_for_the_newest(tmp_path):
    quarantine = Quarantine(tmp_path, Clock())
    for number in range(MOST_BODIES + 3):
        assert await fail(quarantine, b"%d" % number) == [False] * (FAILURES - 1) + [True]
    assert bodies(tmp_path) == [b"%d" % number for number in range(3, MOST_BODIES + 3)]
    assert len(list(tmp_path.iterdir())) == 2 * MOST_BODIES


async def test_the_folder_is_bounded_in_bytes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(quarantine_module, "MOST_BYTES", 100)
    quarantine = Quarantine(tmp_path, Clock())
    for size in (40, 50, 20, 101, 60):
        await fail(quarantine, bytes(size))
        kept = bodies(tmp_path)
        assert sum(map(len, kept)) <= 100 or len(kept) == 1
        assert kept[-1] == bytes(size)
    assert [len(body) for body in bodies(tmp_path)] == [60]


async def test_the_memory_of_failures_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(quarantine_module, "_REMEMBERED", 2)
    quarantine = Quarantine(tmp_path, Clock())
    for body in (b"1", b"2", b"1", b"3"):  # where 2 is the oldest
        assert not await quarantine.takes(JSON, body, KeyError())
    assert len(quarantine._failures) == 2
    assert await quarantine.takes(JSON, b"1", KeyError())
    assert not await quarantine.takes(JSON, b"2", KeyError())
