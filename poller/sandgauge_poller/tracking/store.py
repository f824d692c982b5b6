"""Rows of the active set: functions on a connection, to be run inside one transaction of the writer.

A lifecycle event is one row, keyed by its span, so a repeat changes nothing; when a sandbox is done with, its
rows lose their bodies and stay as the memory of what was seen.
"""

import logging
import sqlite3
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sandgauge_poller.ingest.event_json import EventKind, decode_event, encode_event
from sandgauge_poller.ingest.events import LifecycleEvent, RequestEvent, StartEvent
from sandgauge_poller.tracking import progress_rows
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_schemas.records import RequestRecord

logger = logging.getLogger(__name__)

_LIVE = "live"
_ELSEWHERE = "elsewhere"
_ROWS_AT_ONCE = 1000
"""SQLite takes 32,766 values in one statement."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event beside the sandbox it is about; None for a request or a rollout."""

    event: LifecycleEvent
    key: SandboxKey | None
    is_elsewhere: bool = False
    """Whether another poller follows the sandbox."""


def insert_events(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> list[bool]:
    """Store events; return for each whether it was news (not a repeat, and not of a sandbox that is done with).

    A few statements for many rows: each gives the interpreter away and has to get it back, which under load takes much
    longer than the row. Rows are stored in the order of their table, so that each of its pages is looked for once.
    """
    news = [False] * len(rows)
    in_order = sorted(range(len(rows)), key=lambda at: (rows[at].event.trace_id, rows[at].event.span_id))
    for at in range(0, len(rows), _ROWS_AT_ONCE):
        part = in_order[at : at + _ROWS_AT_ONCE]
        for number, is_news in zip(part, _insert_events(connection, [rows[number] for number in part]), strict=True):
            news[number] = is_news
    return news


def _insert_events(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> list[bool]:
    known = _known(connection, rows)
    done = _done(connection, {row.key for row in rows if row.key is not None})
    events: list[object] = []
    sandboxes: list[object] = []
    news = []
    for row in rows:
        event, key = row.event, row.key
        span = (event.trace_id, event.span_id)
        is_new, is_done = span not in known, key in done
        news.append(is_new and not is_done)
        if not is_new:
            continue
        known.add(span)
        kind, subject, body = encode_event(event)
        owner = key.owner if key else ""
        events += (*span, kind.value, owner, subject, event.received_ns, None if is_done else body)
        if key is not None and isinstance(event, StartEvent) and not is_done:
            state = _ELSEWHERE if row.is_elsewhere else _LIVE
            sandboxes += (key.owner, key.sandbox_id, state, event.received_ns)
    columns = "trace_id, span_id, kind, owner, subject, received_ns, body"
    _insert(connection, f"INSERT INTO event ({columns})", events, 7)
    _insert(connection, "INSERT OR IGNORE INTO sandbox (owner, sandbox_id, state, updated_ns)", sandboxes, 4)
    return news


def _known(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> set[tuple[bytes, bytes]]:
    """Return those spans, by their ids, that are stored already."""
    spans = {(row.event.trace_id, row.event.span_id) for row in rows}
    query = f"WITH span AS ({_values(len(spans), 2)}) SELECT e.trace_id, e.span_id FROM span"  # noqa: S608  # constant text
    query += " CROSS JOIN event e ON e.trace_id = span.column1 AND e.span_id = span.column2"
    return set(connection.execute(query, [id_ for span in spans for id_ in span]))


def _done(connection: sqlite3.Connection, keys: Collection[SandboxKey]) -> set[SandboxKey | None]:
    """Return those sandboxes that are done with."""
    if not keys:
        return set()
    query = f"WITH key AS ({_values(len(keys), 2)}) SELECT s.owner, s.sandbox_id FROM key"  # noqa: S608  # constant text
    query += " CROSS JOIN sandbox s ON s.owner = key.column1 AND s.sandbox_id = key.column2 AND s.state = 'done'"
    ids = [id_ for key in keys for id_ in (key.owner, key.sandbox_id)]
    return {SandboxKey(owner, sandbox_id) for owner, sandbox_id in connection.execute(query, ids)}


def _insert(connection: sqlite3.Connection, into: str, values: Sequence[object], columns: int) -> None:
    if values:
        connection.execute(f"{into} {_values(len(values) // columns, columns)}", values)


def _values(rows: int, columns: int) -> str:
    row = f"({','.join('?' * columns)})"
    return f"VALUES {','.join([row] * rows)}"


def _is_done(connection: sqlite3.Connection, key: SandboxKey) -> bool:
    query = "SELECT state = 'done' FROM sandbox WHERE owner = ? AND sandbox_id = ?"
    found = connection.execute(query, (key.owner, key.sandbox_id)).fetchone()
    return found is not None and bool(found[0])


def load_events(
    connection: sqlite3.Connection, key_of: Callable[[LifecycleEvent], SandboxKey | None]
) -> list[LifecycleEvent]:
    """Return every event that still counts, in the order of its arrival.

    `key_of` says whose an event is by the present configuration; rows of another owner move there with all they have.
    Rows that cannot be read, where a disk changed a bit of them, are left out: some sandboxes less are no reason to
    read none.
    """
    query = (
        "SELECT trace_id, span_id, kind, received_ns, CAST(body AS BLOB), owner FROM event"
        " WHERE body IS NOT NULL AND kind != ? ORDER BY received_ns"
    )
    events, unreadable = [], 0
    for *row, owner in connection.execute(query, (EventKind.REQUEST.value,)).fetchall():
        try:
            event = decode_event(row[0], row[1], EventKind(row[2]), row[3], row[4])
        except (ValueError, TypeError, KeyError):
            unreadable += 1
            continue
        key = key_of(event)
        if key is None or key.owner == owner or _rehome(connection, event, owner, key):
            events.append(event)
    if unreadable:
        logger.error("%d stored spans are unreadable and left out; check the disk", unreadable)
    return events


def _rehome(connection: sqlite3.Connection, event: LifecycleEvent, owner: str, key: SandboxKey) -> bool:
    """Give an event and its sandbox another owner; return whether the event still counts there."""
    connection.execute(
        "UPDATE OR IGNORE sandbox SET owner = ? WHERE owner = ? AND sandbox_id = ?", (key.owner, owner, key.sandbox_id)
    )
    connection.execute("DELETE FROM sandbox WHERE owner = ? AND sandbox_id = ?", (owner, key.sandbox_id))
    progress_rows.rehome(connection, owner, key)
    done = _is_done(connection, key)
    connection.execute(
        "UPDATE event SET owner = ?, body = CASE WHEN ? THEN NULL ELSE body END WHERE trace_id = ? AND span_id = ?",
        (key.owner, done, event.trace_id, event.span_id),
    )
    return not done


def find_request(connection: sqlite3.Connection, request_id: str) -> RequestRecord | None:
    """Return the earliest request with that id, or None."""
    query = (
        "SELECT trace_id, span_id, kind, received_ns, body FROM event"
        " WHERE owner = '' AND subject = ? AND kind = ? AND body IS NOT NULL"
    )
    rows = connection.execute(query, (request_id, EventKind.REQUEST.value)).fetchall()
    events = [decode_event(row[0], row[1], EventKind(row[2]), row[3], row[4]) for row in rows]
    requests = sorted((e for e in events if isinstance(e, RequestEvent)), key=lambda event: event.order)
    return requests[0].record if requests else None


def forget(connection: sqlite3.Connection, keys: Sequence[SandboxKey]) -> None:
    """Forget sandboxes as if their spans had never been stored: they may come again."""
    connection.executemany("DELETE FROM event WHERE owner = ? AND subject = ?", keys)
    connection.executemany("DELETE FROM sandbox WHERE owner = ? AND sandbox_id = ?", keys)
    for key in keys:
        progress_rows.forget(connection, key)


def finish(connection: sqlite3.Connection, key: SandboxKey, now_ns: int) -> None:
    """Mark a sandbox as done with; its events stay only as the memory of what was seen."""
    connection.execute(
        "INSERT INTO sandbox (owner, sandbox_id, state, updated_ns) VALUES (?, ?, 'done', ?)"
        " ON CONFLICT (owner, sandbox_id)"
        " DO UPDATE SET state = 'done', progress = NULL, updated_ns = excluded.updated_ns",
        (key.owner, key.sandbox_id, now_ns),
    )
    progress_rows.forget(connection, key)
    # A stop that names no deployment may be that of another sandbox too.
    connection.execute(
        "UPDATE event SET body = NULL WHERE owner = ? AND subject = ? AND NOT (kind = ? AND owner GLOB 'provider:*')",
        (key.owner, key.sandbox_id, EventKind.STOP.value),
    )


def prune(
    connection: sqlite3.Connection, before_ns: int, most_rows: int, live_subjects: Collection[tuple[EventKind, str]]
) -> None:
    """Forget what is older than the memory kept, or beyond its size; what a live sandbox needs stays.

    `live_subjects` names the requests and rollouts (by trace id in hex) of live sandboxes, and whose stops have come.
    """
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS needed (kind TEXT, subject TEXT, PRIMARY KEY (kind, subject))")
    connection.execute("DELETE FROM temp.needed")
    connection.executemany(
        "INSERT OR IGNORE INTO temp.needed VALUES (?, ?)", [(kind.value, subject) for kind, subject in live_subjects]
    )
    unneeded = (
        " NOT EXISTS (SELECT 1 FROM sandbox s WHERE s.owner = event.owner AND s.sandbox_id = event.subject"
        " AND s.state != 'done')"
        " AND NOT EXISTS (SELECT 1 FROM temp.needed n WHERE n.kind = event.kind AND n.subject = event.subject)"
    )
    connection.execute(f"DELETE FROM event WHERE received_ns < ? AND {unneeded}", (before_ns,))  # noqa: S608  # constant text
    connection.execute("DELETE FROM sandbox WHERE state = 'done' AND updated_ns < ?", (before_ns,))
    # What was on its way to be kept of a sandbox as it was forgotten.
    spans = "SELECT 1 FROM event e WHERE e.owner = sandbox.owner AND e.subject = sandbox.sandbox_id"
    connection.execute(f"DELETE FROM sandbox WHERE state = 'live' AND NOT EXISTS ({spans})")  # noqa: S608  # the same
    excess = _excess(connection, "SELECT count(*) FROM event", most_rows)
    oldest = f"SELECT trace_id, span_id FROM event WHERE {unneeded} ORDER BY received_ns LIMIT ?"  # noqa: S608  # the same
    connection.execute(f"DELETE FROM event WHERE (trace_id, span_id) IN ({oldest})", (excess,))  # noqa: S608  # the same
    excess = _excess(connection, "SELECT count(*) FROM sandbox WHERE state = 'done'", most_rows)
    oldest = "SELECT owner, sandbox_id FROM sandbox WHERE state = 'done' ORDER BY updated_ns LIMIT ?"
    connection.execute(f"DELETE FROM sandbox WHERE (owner, sandbox_id) IN ({oldest})", (excess,))  # noqa: S608  # the same


def _excess(connection: sqlite3.Connection, count: str, most_rows: int) -> int:
    return max(0, int(connection.execute(count).fetchone()[0]) - most_rows)
