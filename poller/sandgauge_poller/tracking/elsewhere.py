"""Rows of sandboxes that another poller follows: kept so that one that becomes their owner knows of them.

A sandbox changes its owner while it runs. What is over stays with the poller that has its readings, which makes the
summary; everybody else needs to know no more than that it was.
"""

import sqlite3
from collections.abc import Sequence

from sandgauge_poller.ingest.event_json import EventKind
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.progress import Progress, dump_progress
from sandgauge_schemas import names

_LONGER_NS = 6 * 24 * 3600 * 10**9
"""By so much longer than others a sandbox is remembered that never stopped: its end is known to its owner alone."""


def followed(connection: sqlite3.Connection) -> set[SandboxKey]:
    """Return the sandboxes that this poller followed itself until now."""
    query = "SELECT owner, sandbox_id FROM sandbox WHERE state = 'live'"
    return {SandboxKey(owner, sandbox_id) for owner, sandbox_id in connection.execute(query)}


def take_over(connection: sqlite3.Connection, keys: Sequence[SandboxKey]) -> None:
    """Follow sandboxes from now on."""
    inherited = dump_progress(Progress(inherited=True))
    connection.executemany(
        "UPDATE sandbox SET state = 'live', progress = ? WHERE owner = ? AND sandbox_id = ?",
        [(inherited, key.owner, key.sandbox_id) for key in keys],
    )


def let_go(connection: sqlite3.Connection, keys: Sequence[SandboxKey]) -> None:
    """Leave sandboxes to another poller, and forget what was seen of them: by the time they come back it is stale."""
    connection.executemany(
        "UPDATE sandbox SET state = 'elsewhere', progress = NULL WHERE owner = ? AND sandbox_id = ?",
        [(key.owner, key.sandbox_id) for key in keys],
    )


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
