"""A look at a state folder from outside: what stands there and who owns it, without taking it over."""

import fcntl
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sandgauge_poller.ingest.event_json import EventKind
from sandgauge_poller.tracking.database import LOCK_FILE, STORE_FILE
from sandgauge_schemas import names

_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """Start spans that one instrumentation scope of one sender made, all of them with a request id or none.

    None: not known.
    """

    instrumentation: str | None
    sender: str | None
    has_request: bool
    count: int
    last_received_ns: int


def owner(directory: Path) -> str | None:
    """Return the process id of the poller that uses the folder (`unknown` where it left none), or None.

    The lock is tried and let go at once. Raises OSError where the lock file cannot be read.
    """
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
    finally:
        os.close(descriptor)
    return None


def version(directory: Path) -> int | None:
    """Return the version of the store, None where there is none; raises sqlite3.Error where it cannot be read."""
    path = directory / STORE_FILE
    if not path.exists():
        return None
    with closing(_connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def starts(directory: Path) -> list[Starts]:
    """Count what still counts; raises sqlite3.Error where the store cannot be read."""
    query = (
        "SELECT json_extract(body, '$.instrumentation'), json_extract(body, '$.sender'),"
        " json_extract(body, ?) IS NOT NULL, count(*), max(received_ns)"
        " FROM event WHERE kind = ? AND body IS NOT NULL GROUP BY 1, 2, 3"
    )
    request_id = f'$.attributes."{names.NEMO_GYM_SANDBOX_REQUEST_ID}"'
    with closing(_connect(directory / STORE_FILE)) as connection:
        rows = connection.execute(query, (request_id, EventKind.START.value)).fetchall()
    return [
        Starts(
            instrumentation=name, sender=sender, has_request=bool(has_request), count=count, last_received_ns=last_ns
        )
        for name, sender, has_request, count, last_ns in rows
    ]


def last_received_ns(directory: Path) -> int | None:
    """Return when the last lifecycle span came in, ns since the epoch, or None; raises sqlite3.Error as `starts` does.

    A span is remembered for a day, with or without what it said.
    """
    with closing(_connect(directory / STORE_FILE)) as connection:
        found: int | None = connection.execute("SELECT max(received_ns) FROM event").fetchone()[0]
    return found


def designators(directory: Path, kind: str) -> list[str]:
    """Return ids of designators of a kind, of sandboxes that live; raises sqlite3.Error as `starts` does."""
    place = "$.recorded_allocation.designator"
    query = (
        "SELECT DISTINCT json_extract(told, ?) FROM (SELECT CAST(progress AS TEXT) AS told FROM sandbox"
        " WHERE state = 'live' AND progress IS NOT NULL) WHERE json_extract(told, ?) = ?"
    )
    with closing(_connect(directory / STORE_FILE)) as connection:
        rows = connection.execute(query, (f"{place}.id", f"{place}.kind", kind)).fetchall()
    return [id_ for (id_,) in rows if isinstance(id_, str)]


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=_PATIENCE_S)
