"""Taking possession of a state folder: its lock, the store's file opened and checked, its tables brought up to date.

A file that is damaged is set aside, since no waiting would mend it; one of a newer version is refused, since that
version can still read it, and whoever sends spans keeps them meanwhile.
"""

import errno
import fcntl
import logging
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from sandgauge_poller.tracking import schema
from sandgauge_poller.tracking.migrations import MIGRATIONS

logger = logging.getLogger(__name__)

_CACHE_KIB = 4 * 1024
"""Ids are random, so a burst of spans touches pages all over the file; SQLite's own 2 MiB do not hold them."""

_WAL_BYTES_KEPT = 64 * 1024 * 1024
_USUAL_COMMIT = 256 * 1024
"""Bytes that a disk must have room for to be of use again; less may fit where nothing else does."""
_MOST_SET_ASIDE = 3
"""Damaged files kept; a disk that damages more than these is no place for a store."""

_PRIMARY_CODE = 0xFF
"""The bits of an extended error code that hold its kind."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNUSABLE = _DAMAGED | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


LOST_WITH_THE_STORE = "sandboxes that it knew are read no more, and records that waited there are not sent"


class StateError(Exception):
    """The state folder or its file cannot be used; the message names the path and the cure."""


class DamagedError(StateError):
    """The file is no whole store; `damage` is what SQLite says of it."""

    def __init__(self, file: Path, damage: str) -> None:
        super().__init__(f"{file}: damaged ({damage}); it is set aside, so start the poller again: it begins anew")
        self.damage = damage


class RemovedError(DamagedError):
    """The file is not where it was opened: it was removed or replaced, and what is written now reaches nobody."""

    def __init__(self, file: Path) -> None:
        StateError.__init__(
            self,
            f"{file}: removed or replaced while the poller was using it; start the poller again, and let nothing else "
            "change that folder",
        )
        self.damage = "removed or replaced"


def lock(file: Path) -> int:
    """Create the folder if need be and lock the file in it; return the descriptor that holds the lock.

    Raises:
        StateError: the folder cannot be written, or another poller owns it.

    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StateError(_unusable(file.parent, error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise StateError(
            f"{file.parent}: the poller with process id {owner} is using this folder; "
            "stop it, or name another folder as state.directory"
        ) from error
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
    except OSError as error:
        os.close(descriptor)
        raise StateError(_unusable(file.parent, error)) from error
    return descriptor


def open_store(file: Path) -> sqlite3.Connection:
    """Return a connection that writes, its tables brought up to date; a damaged file is set aside for an empty one.

    Raises:
        StateError: the file cannot be written, is of a newer version, or was damaged too often.

    """
    try:
        return _open(file)
    except DamagedError as error:
        kept = set_aside(file, error.damage)
        logger.error(  # noqa: TRY400  # no fault of the program's, so no traceback
            "%s: damaged, or no file of Sandgauge (%s); it is kept as %s, and the poller begins anew: %s",
            file,
            error.damage,
            kept.name,
            LOST_WITH_THE_STORE,
        )
        return _open(file)


def connect(file: Path) -> sqlite3.Connection:
    """Return a connection without transactions of its own making."""
    return sqlite3.connect(file, isolation_level=None, check_same_thread=False)


def migrate(connection: sqlite3.Connection, scripts: Sequence[str], file: Path) -> None:
    """Run the scripts that the file has not seen, each in its own transaction.

    Raises:
        StateError: the file is of a version that these scripts do not know.

    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(scripts):
        raise StateError(
            f"{file}: written by a newer Sandgauge (version {version} of the store; this one knows {len(scripts)}); "
            "run that Sandgauge again, or move the file away to begin with an empty one"
        )
    for number, script in enumerate(scripts[version:], start=version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")


def is_unusable(error: Exception) -> bool:
    """Say whether the disk or the file is to blame for an error, and not what was asked of it."""
    return _code(error) in _UNUSABLE or isinstance(error, OSError)


def as_state_error(error: Exception, file: Path) -> Exception:
    """Return the error as a StateError where `is_unusable`, else as it is."""
    if _code(error) in _DAMAGED:
        return DamagedError(file, str(error))
    return StateError(_unusable(file, error)) if is_unusable(error) else error


def _open(file: Path) -> sqlite3.Connection:
    try:
        connection = connect(file)
        try:
            _prepare(connection, file)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        if _code(error) in _DAMAGED:
            raise DamagedError(file, str(error)) from error
        raise StateError(_unusable(file, error)) from error
    return connection


def _prepare(connection: sqlite3.Connection, file: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    complaint = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if complaint != "ok":
        raise DamagedError(file, " ".join(complaint.split()))
    migrate(connection, MIGRATIONS, file)
    lost = schema.damage(connection)
    if lost is not None:
        raise DamagedError(file, lost)
    # A file that may only be read opens without a word, and even begins to write; only a write is refused.
    _write_nothing_new(connection)


def _write_nothing_new(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def place(file: Path) -> tuple[int, int]:
    """Return what tells a file from any that takes its path later; raises RemovedError where there is none."""
    try:
        found = file.stat()
    except FileNotFoundError as error:
        raise RemovedError(file) from error
    return found.st_dev, found.st_ino


def try_to_write(connection: sqlite3.Connection, file: Path) -> None:
    """Write without a change, where the disk has room for what is usual; raises OSError or sqlite3.Error."""
    with TemporaryFile(dir=file.parent) as room:
        room.write(os.urandom(_USUAL_COMMIT))
        room.flush()
        os.fsync(room.fileno())
    _write_nothing_new(connection)


def shortage(file: Path) -> StateError | None:
    """Return what is wrong where a disk has no room for what is usual, though a little may still fit."""
    try:
        disk = os.statvfs(file.parent)
    except OSError:
        return None  # the next write says what is wrong
    if not disk.f_blocks or disk.f_bavail * disk.f_frsize >= _USUAL_COMMIT:  # some say nothing of their size
        return None
    return StateError(_unusable(file, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))


def set_aside(file: Path, damage: str) -> Path:
    """Rename a damaged file, and what SQLite has beside it, which would spoil a new one; return its new name.

    Raises:
        StateError: too many were set aside before.

    """
    candidates = [file.with_name(f"{file.name}.damaged-{number}") for number in range(1, _MOST_SET_ASIDE + 1)]
    kept = next((candidate for candidate in candidates if not candidate.exists()), None)
    if kept is None:
        raise StateError(
            f"{file}: damaged ({damage}), as {_MOST_SET_ASIDE} others were that are kept beside it; check the disk, "
            "and move them away"
        )
    file.rename(kept)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).rename(kept.with_name(kept.name + suffix))
    return kept


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE


def _unusable(path: Path, error: Exception) -> str:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if _code(error) == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno in _NO_ROOM):
        return f"{path}: cannot be written ({reason}); make room on that disk"
    return (
        f"{path}: cannot be written ({reason}){_owned(path)}; let user id {os.geteuid()} write there, "
        "or name another folder as state.directory"
    )


def _owned(path: Path) -> str:
    """Return words that say whose the path is, or what of it is there and may be looked at."""
    for there in (path, *path.absolute().parents):
        try:
            return f"; {there} belongs to user id {there.stat().st_uid}"
        except OSError:
            continue
    return ""
