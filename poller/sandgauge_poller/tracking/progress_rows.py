"""Rows of what the poller has seen: functions on a connection, to be run inside one transaction of the writer."""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.phase import phase
from sandgauge_poller.tracking.progress import Progress, dump_progress, load_progress
from sandgauge_poller.tracking.tally import apply_tally, dump_tally
from sandgauge_schemas.wording import number_of

logger = logging.getLogger(__name__)

_CHUNKS = (256, 64, 16, 4, 1)
"""Rows of one statement: few statements, so that each is prepared once, and few calls. Each call gives the interpreter
away and has to get it back, which under load takes much longer than the row."""


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """What is to be kept of one sandbox: its tally, and its whole progress where more than the tally changed."""

    key: SandboxKey
    phase: float
    tally: bytes
    progress: bytes | None


def whole_row(key: SandboxKey, progress: Progress) -> ProgressRow:
    """Return the row that keeps all that is known of a sandbox."""
    return ProgressRow(key, phase(key.sandbox_id), dump_tally(progress), dump_progress(progress))


def save(connection: sqlite3.Connection, rows: Sequence[ProgressRow], now_ns: int) -> None:
    """Write what was seen of some sandboxes, each at most once."""
    for chunk in _chunks(rows):
        places = ",".join(["(?,?,?,?)"] * len(chunk))
        connection.execute(
            f"INSERT OR REPLACE INTO tally (phase, owner, sandbox_id, counts) VALUES {places}",  # noqa: S608  # constant text
            [value for row in chunk for value in (row.phase, *row.key, row.tally)],
        )
    for chunk in _chunks([row for row in rows if row.progress is not None]):
        places = ",".join(["(?,?,'live',?,?)"] * len(chunk))
        connection.execute(
            f"INSERT INTO sandbox (owner, sandbox_id, state, updated_ns, progress) VALUES {places}"  # noqa: S608  # the same
            " ON CONFLICT (owner, sandbox_id)"
            " DO UPDATE SET progress = excluded.progress, updated_ns = excluded.updated_ns",
            [value for row in chunk for value in (*row.key, now_ns, row.progress)],
        )


def load_all(connection: sqlite3.Connection) -> dict[SandboxKey, Progress]:
    """Return the progress of every sandbox that is not done with."""
    tallies = {
        SandboxKey(owner, sandbox_id): counts
        for owner, sandbox_id, counts in connection.execute("SELECT owner, sandbox_id, counts FROM tally")
    }
    found: dict[SandboxKey, Progress] = {}
    unreadable = 0
    query = "SELECT owner, sandbox_id, progress FROM sandbox WHERE state = 'live' AND progress IS NOT NULL"
    for owner, sandbox_id, row in connection.execute(query):
        key = SandboxKey(owner, sandbox_id)
        progress = _decoded(row, tallies.get(key))
        if progress is None:
            unreadable += 1
        else:
            found[key] = progress
    if unreadable:
        logger.warning("what was seen of %s is unreadable; it begins anew", number_of(unreadable, "sandbox"))
    return found


def load(connection: sqlite3.Connection, key: SandboxKey) -> Progress | None:
    """Return the progress of one sandbox; None where there is none that can be read."""
    query = (
        "SELECT s.progress, t.counts FROM sandbox s LEFT JOIN tally t ON t.phase = ? AND t.owner = s.owner"
        " AND t.sandbox_id = s.sandbox_id WHERE s.owner = ? AND s.sandbox_id = ? AND s.progress IS NOT NULL"
    )
    found = connection.execute(query, (phase(key.sandbox_id), *key)).fetchone()
    return None if found is None else _decoded(*found)


def forget(connection: sqlite3.Connection, key: SandboxKey) -> None:
    """Remove the tally of a sandbox that is done with."""
    connection.execute(
        "DELETE FROM tally WHERE phase = ? AND owner = ? AND sandbox_id = ?",
        (phase(key.sandbox_id), key.owner, key.sandbox_id),
    )


def rehome(connection: sqlite3.Connection, owner: str, key: SandboxKey) -> None:
    """Give a tally another owner, whose own stays where it has one."""
    connection.execute(
        "UPDATE OR IGNORE tally SET owner = ? WHERE phase = ? AND owner = ? AND sandbox_id = ?",
        (key.owner, phase(key.sandbox_id), owner, key.sandbox_id),
    )
    forget(connection, SandboxKey(owner, key.sandbox_id))


def prune(connection: sqlite3.Connection) -> None:
    """Remove tallies that came after their sandbox was done with."""
    connection.execute(
        "DELETE FROM tally WHERE NOT EXISTS (SELECT 1 FROM sandbox s WHERE s.owner = tally.owner"
        " AND s.sandbox_id = tally.sandbox_id AND s.state != 'done')"
    )


def _decoded(row: bytes | str, counts: bytes | None) -> Progress | None:
    """Return progress with its tally applied, or None where either cannot be read."""
    try:
        progress = load_progress(row)
        if counts is not None:
            apply_tally(progress, counts)
    except (ValueError, TypeError):
        return None
    return progress


def _chunks(rows: Sequence[ProgressRow]) -> Iterator[Sequence[ProgressRow]]:
    at = 0
    for size in _CHUNKS:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size
