"""A look at a state folder from outside: what stands there and who owns it, without taking it over."""

import fcntl
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sandgauge_poller.tracking.database import LOCK_FILE, STORE_FILE
from sandgauge_poller.tracking.store import EventKind
from sandgauge_schemas import names

_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts:
    """How many sandboxes the store knows the start of, and of how many that start came with a request id."""

    known: int
    with_request: int


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


def starts(directory: Path) -> Starts:
    """Count what still counts; raises sqlite3.Error where the store cannot be read."""
    query = "SELECT count(*), count(json_extract(body, ?)) FROM event WHERE kind = ? AND body IS NOT NULL"
    request_id = f'$.attributes."{names.NEMO_GYM_SANDBOX_REQUEST_ID}"'
    with closing(_connect(directory / STORE_FILE)) as connection:
        known, with_request = connection.execute(query, (request_id, EventKind.START.value)).fetchone()
    return Starts(known=known, with_request=with_request)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=_PATIENCE_S)
