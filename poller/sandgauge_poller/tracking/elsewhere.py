"""Rows of sandboxes that another poller follows: kept so that one that becomes their owner knows of them.

A sandbox changes its owner while it runs. What is over stays with the poller that has its readings, which makes the
summary; everybody else needs to know no more than that it was.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sandgauge_poller.ingest.event_json import EventKind
from sandgauge_poller.tracking import progress_rows, store
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.progress import Progress
from sandgauge_schemas import names

_LONGER_NS = 6 * 24 * 3600 * 10**9
"""By so much longer than others a sandbox is remembered that never stopped: its end is known to its owner alone."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a sandbox until a time (ns since the epoch)."""

    progress: Progress
    until_ns: int


def followed(connection: sqlite3.Connection) -> set[SandboxKey]:
    """Return the sandboxes that this poller followed itself until now."""
    query = "SELECT owner, sandbox_id FROM sandbox WHERE state = 'live'"
    return {SandboxKey(owner, sandbox_id) for owner, sandbox_id in connection.execute(query)}


def follow(connection: sqlite3.Connection, sandboxes: Mapping[SandboxKey, Progress], now_ns: int) -> None:
    """Follow sandboxes from now on, of which so much is known."""
    for key in sandboxes:
        connection.execute(
            "UPDATE sandbox SET state = 'live' WHERE owner = ? AND sandbox_id = ?", (key.owner, key.sandbox_id)
        )
    rows = [progress_rows.whole_row(key, progress) for key, progress in sandboxes.items()]
    progress_rows.save(connection, rows, now_ns)


def newest(
    connection: sqlite3.Connection, keys: Iterable[SandboxKey], seen: Mapping[SandboxKey, Seen]
) -> dict[SandboxKey, Progress]:
    """Return those that are not done with, each with what was seen of it last, here or by another poller."""
    new = "INSERT OR IGNORE INTO sandbox (owner, sandbox_id, state, updated_ns) VALUES (?, ?, 'elsewhere', 0)"
    query = "SELECT state, updated_ns FROM sandbox WHERE owner = ? AND sandbox_id = ?"
    found: dict[SandboxKey, Progress] = {}
    for key in keys:
        connection.execute(new, (key.owner, key.sandbox_id))
        state, updated_ns = connection.execute(query, (key.owner, key.sandbox_id)).fetchone()
        if state == "done":
            continue
        known = [seen[key]] if key in seen else []
        own = progress_rows.load(connection, key)
        if own is not None:
            until_ns = max(updated_ns, own.last_reading_ns or 0, *own.failed_in_a_row_ns[-1:])
            known.append(Seen(own, until_ns))
        found[key] = max(known, key=lambda each: each.until_ns).progress if known else Progress()
    return found


def leave(connection: sqlite3.Connection, keys: Iterable[SandboxKey]) -> None:
    """Follow sandboxes no more, and keep what was seen of them."""
    connection.executemany(
        "UPDATE sandbox SET state = 'elsewhere' WHERE owner = ? AND sandbox_id = ? AND state = 'live'",
        [(key.owner, key.sandbox_id) for key in keys],
    )


def spans(connection: sqlite3.Connection, key: SandboxKey) -> list[tuple[bytes, bytes]]:
    """Return the ids of the spans that are known of a sandbox."""
    query = "SELECT trace_id, span_id FROM event WHERE owner = ? AND subject = ?"
    return connection.execute(query, (key.owner, key.sandbox_id)).fetchall()


def let_go(connection: sqlite3.Connection, keys: Sequence[SandboxKey]) -> None:
    """Leave sandboxes to another poller, and forget what was seen of them: by the time they come back it is stale."""
    connection.executemany(
        "UPDATE sandbox SET state = 'elsewhere', progress = NULL WHERE owner = ? AND sandbox_id = ?",
        [(key.owner, key.sandbox_id) for key in keys],
    )
    for key in keys:
        progress_rows.forget(connection, key)


def end(connection: sqlite3.Connection, key: SandboxKey, now_ns: int) -> None:
    """Remember of a sandbox that another poller follows only that it was."""
    query = "SELECT 1 FROM sandbox WHERE owner = ? AND sandbox_id = ? AND state = 'elsewhere'"
    if connection.execute(query, (key.owner, key.sandbox_id)).fetchone() is not None:
        store.finish(connection, key, now_ns)


def forget(connection: sqlite3.Connection, before_ns: int) -> None:
    """Forget those that are past their memory; `before_ns` is where that of all others begins."""
    connection.execute("DELETE FROM sandbox WHERE state = 'elsewhere' AND updated_ns < ?", (before_ns - _LONGER_NS,))


def needed(connection: sqlite3.Connection) -> set[tuple[EventKind, str]]:
    """Return the requests that a later owner would look up."""
    request_id = f'$.attributes."{names.NEMO_GYM_SANDBOX_REQUEST_ID}"'
    query = (
        "SELECT DISTINCT json_extract(e.body, ?) FROM sandbox s JOIN event e ON e.owner = s.owner"
        " AND e.subject = s.sandbox_id WHERE s.state = 'elsewhere' AND e.kind = 'start' AND e.body IS NOT NULL"
    )
    rows = connection.execute(query, (request_id,))
    return {(EventKind.REQUEST, found) for (found,) in rows if isinstance(found, str)}
