"""Who made the start spans that a poller took in, as the doctor tells it from the store."""

import json
import sqlite3
from contextlib import closing

import pytest

from sandgauge_poller.doctor import start_spans
from sandgauge_poller.ingest.understanding import understand
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.store import EventRow, insert_events
from sandgauge_schemas import names
from support.otlp_encodings import to_protobuf
from support.otlp_json import START_NS, from_resource, span, traces

STOCK, EMITTER = "nemo.lens.helpers", "sandgauge_emitter"
SENT_NS = START_NS + 10 * 10**9
ENCODINGS = {"application/json": lambda sent: json.dumps(sent).encode(), "application/x-protobuf": to_protobuf}


def start(scope, sandbox_id, request_id=None):
    request = {names.NEMO_GYM_SANDBOX_REQUEST_ID: request_id} if request_id else {}
    return from_resource(
        {}, span(names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: sandbox_id, **request}), scope=scope
    )


def take_in(database, content_type, *resources, at_ns=SENT_NS):
    body = ENCODINGS[content_type](traces(*resources))
    rows = [
        EventRow(event, SandboxKey("training", event.record.keys.sandbox_id))
        for event, _ in understand(content_type, body, at_ns).events
    ]
    assert rows
    database.submit(lambda connection: insert_events(connection, rows)).result(60)


def said(database):
    return [str(finding) for finding in start_spans.examine(database.path.parent, SENT_NS + 7 * 10**9)]


@pytest.mark.parametrize("content_type", ENCODINGS)
@pytest.mark.parametrize(
    ("service", "sender"),
    [
        ({"service.name": "nemo-gym/bench", "service.version": "0.1.0"}, " from nemo-gym/bench 0.1.0"),
        ({"service.name": "nemo-gym/bench"}, " from nemo-gym/bench"),
        ({"service.name": "nemo-gym/bench", "service.version": "x" * 100_000}, " from nemo-gym/bench"),
        ({"service.name": "\x1b[31mred", "service.version": "0.1.0"}, ""),
        ({"service.version": "0.1.0"}, ""),
        ({"service.name": ""}, ""),
    ],
)
def test_who_sent_the_last_of_them_is_named_as_far_as_it_is_told(database, content_type, service, sender):
    made = span(
        names.SPAN_GYM_SANDBOX_START, {names.NEMO_GYM_SANDBOX_ID: "s-1", names.NEMO_GYM_SANDBOX_REQUEST_ID: "r"}
    )
    take_in(database, content_type, from_resource(service, made, scope=EMITTER))
    (line,) = said(database)
    assert line.endswith(f"; the last came 7 s ago{sender} and is the emitter's own")


@pytest.mark.parametrize("content_type", ENCODINGS)
@pytest.mark.parametrize(
    ("resource", "maker", "verdict"),
    [
        (start(STOCK, "s-1"), "stock Gym's alone", "warn"),
        (start(STOCK, "s-1", "r-1"), "stock Gym's, enriched by the emitter", "pass"),
        (start(EMITTER, "s-1", "r-1"), "the emitter's own", "pass"),
        (start("another", "s-1", "r-1"), "with a request, from an unknown instrumentation scope", "pass"),
        (start("", "s-1", "r-1"), "with a request, from an unknown instrumentation scope", "pass"),
        (start("", "s-1"), "stock Gym's alone", "warn"),
    ],
)
def test_each_maker_is_told(database, content_type, resource, maker, verdict):
    take_in(database, content_type, resource)
    (line,) = said(database)
    assert line.startswith(
        f"{verdict}  start spans: of 1 sandbox known: 1 {maker}; the last came 7 s ago and is {maker}"
    )


def test_all_of_them_are_counted_and_the_last_is_named(database):
    take_in(database, "application/json", *(start(EMITTER, f"own-{n}", f"r-{n}") for n in range(3)))
    take_in(database, "application/json", start(STOCK, "rich", "r-9"))
    take_in(database, "application/json", start(STOCK, "poor"), at_ns=SENT_NS + 2 * 10**9)
    (line,) = said(database)
    assert line == (
        "warn  start spans: of 5 sandboxes known: 3 the emitter's own, 1 stock Gym's, enriched by the emitter,"
        " 1 stock Gym's alone; the last came 5 s ago and is stock Gym's alone;"
        " what was requested and submitted is unknown without it: install sandgauge[gym] where Gym runs"
    )


def test_what_an_earlier_version_kept_is_not_guessed(database):
    take_in(database, "application/json", start(EMITTER, "s-1", "r-1"))
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute("UPDATE event SET body = json_remove(body, '$.instrumentation')")
    (line,) = said(database)
    assert "1 with a request, from an unknown instrumentation scope" in line


def test_nothing_is_said_where_no_poller_ran(tmp_path):
    assert list(start_spans.examine(tmp_path / "nowhere", SENT_NS)) == []


def test_that_no_span_comes_in_is_said(database):
    (line,) = said(database)
    assert line.startswith("warn  start spans: no lifecycle span came in within a day; turn on Gym's telemetry")


def test_the_last_span_is_named_where_no_sandbox_is_known_any_more(database):
    take_in(database, "application/json", start(EMITTER, "s-1", "r-1"))
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute("UPDATE event SET body = NULL")
    assert said(database) == ["pass  start spans: no sandbox is known now; the last lifecycle span came 7 s ago"]
