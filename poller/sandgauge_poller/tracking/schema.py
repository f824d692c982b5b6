"""Whether a store still has what the migrations made: its tables and triggers; without an index it is only slow."""

import sqlite3
from contextlib import closing
from functools import cache

from sandgauge_poller.tracking.migrations import MIGRATIONS


def version(connection: sqlite3.Connection) -> int:
    """Return what SQLite changes with every change of the schema, whoever makes it."""
    return int(connection.execute("PRAGMA schema_version").fetchone()[0])


def damage(connection: sqlite3.Connection) -> str | None:
    """Say what is not as the migrations made it, or None; what else is there does no harm."""
    found = _objects(connection)
    lost = [name for name, made in _made().items() if found.get(name) != made]
    return f"{', '.join(lost)}: removed or changed" if lost else None


@cache
def _made() -> dict[str, str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for script in MIGRATIONS:
            connection.executescript(script)
        return _objects(connection)


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the statement that made each object, by kind and name."""
    query = "SELECT type || ' ' || name, sql FROM sqlite_master WHERE type IN ('table', 'trigger')"
    return dict(connection.execute(query).fetchall())
