"""Rows that tests of the store write and find again."""

import sqlite3
from collections.abc import Callable


def add(sandbox_id: str) -> Callable[[sqlite3.Connection], str]:
    def write(connection: sqlite3.Connection) -> str:
        connection.execute(
            "INSERT INTO sandbox (owner, sandbox_id, state, updated_ns) VALUES ('a', ?, 'live', 0)", (sandbox_id,)
        )
        return sandbox_id

    return write


def ids(connection: sqlite3.Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT sandbox_id FROM sandbox ORDER BY sandbox_id")]
