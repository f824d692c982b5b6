"""The one SQLite file of a poller: its lock, its migrations, one writer thread with group commit, one reader.

WAL with synchronous=NORMAL: what is committed survives the death of the process, kill -9 included. A power cut may
take the last moments with it, and leaves the file whole.
"""

import asyncio
import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from sandgauge_poller.tracking.migrations import MIGRATIONS

T = TypeVar("T")

STORE_FILE = "sandgauge.db"
LOCK_FILE = "sandgauge.lock"
PATIENCE_S = 0.005
"""How long a patient write waits for company."""

_MAX_GROUP = 1000
"""Most functions in one transaction: a bound on how long the first of them waits for its commit."""
_WAL_BYTES_KEPT = 64 * 1024 * 1024
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY_CODE = 0xFF
"""The bits of an extended error code that hold its kind."""

_Job = tuple[Callable[[sqlite3.Connection], Any], Future[Any]]


class StateError(Exception):
    """The state folder or its file cannot be used; the message names the path and the cure."""


class Database:
    """The store in `<directory>/sandgauge.db`, owned by this process alone until `close`.

    Functions get a connection inside a transaction and return plain values, never a cursor. Callers await what they
    submit, so the backlog is bounded by how many they are.

    Raises:
        StateError: the folder cannot be written, another poller owns it, or the file is damaged or of a newer version.

    """

    def __init__(self, directory: Path) -> None:
        self.path = directory.absolute() / STORE_FILE
        self._lock_descriptor = _lock(self.path.parent)
        try:
            self._writer = _open(self.path)
            self._reader = _connect(self.path)
            self._reader.execute("PRAGMA query_only = ON")
        except BaseException:
            os.close(self._lock_descriptor)
            raise
        self._reader_lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._submit_lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="sandgauge-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[sqlite3.Connection], T], *, patient: bool = False) -> Future[T]:
        """Run the function in the next transaction; the future holds its result once that is committed.

        A function that raises is undone alone; its exception goes to its own future. A patient one may wait PATIENCE_S
        for others to share the commit, which is most of the cost where many write.

        Raises:
            StateError: the database is closed.

        """
        future: Future[T] = Future()
        with self._submit_lock:
            if self._closed:
                raise StateError(f"{self.path}: closed; nothing can be written any more")
            self._jobs.put((function, future))
        if not patient:
            self._hurry.set()
        return future

    async def write(self, function: Callable[[sqlite3.Connection], T], *, patient: bool = False) -> T:
        """Return the function's result once its transaction is committed; see `submit`."""
        return await asyncio.wrap_future(self.submit(function, patient=patient))

    def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run the function on one snapshot of what is committed; from any thread, one at a time.

        Raises:
            StateError: the database is closed.

        """
        with self._reader_lock:
            if self._closed:
                raise StateError(f"{self.path}: closed; nothing can be read any more")
            self._reader.execute("BEGIN")
            try:
                return function(self._reader)
            finally:
                self._reader.execute("ROLLBACK")

    def close(self, timeout_s: float) -> bool:
        """Commit what was submitted and close the file; return whether that was done in time.

        When it was not, the folder stays locked until the process ends.
        """
        with self._submit_lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
                self._hurry.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        """Commit groups of functions until the closing mark comes."""
        last = False
        while not last:
            group, last = self._next_group()
            if group:
                _commit(self._writer, group)
        with self._reader_lock:
            self._reader.close()
        self._writer.close()
        os.close(self._lock_descriptor)

    def _next_group(self) -> tuple[list[_Job], bool]:
        """Wait for a function, then take all that are there; True when the closing mark was among them."""
        job = self._jobs.get()
        self._hurry.wait(PATIENCE_S)
        self._hurry.clear()  # before the rest is taken, so that whoever hurries from here on is not kept waiting
        group: list[_Job] = []
        with suppress(queue.Empty):
            while job is not None:
                if job[1].set_running_or_notify_cancel():
                    group.append(job)
                if len(group) == _MAX_GROUP:
                    return group, False
                job = self._jobs.get_nowait()
            return group, True
        return group, False


def _commit(connection: sqlite3.Connection, group: Sequence[_Job]) -> None:
    """Run a group in one transaction and then resolve its futures; when the commit fails, all of them fail."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        resolutions = [_run_job(connection, function, future) for function, future in group]
        connection.execute("COMMIT")
    except Exception as error:  # noqa: BLE001 - whatever it is, the callers get it and the thread lives on
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        for _, future in group:
            future.set_exception(error)
        return
    for resolve in resolutions:
        resolve()


def _run_job(
    connection: sqlite3.Connection, function: Callable[[sqlite3.Connection], Any], future: Future[Any]
) -> Callable[[], None]:
    """Run one function under its savepoint; return what resolves its future after the commit.

    Its exception is raised here only when SQLite gave up the whole transaction with it (disk full, I/O error).
    """
    connection.execute("SAVEPOINT job")
    try:
        result = function(connection)
    except Exception as error:
        if not connection.in_transaction:
            raise
        failure = error
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return lambda: future.set_exception(failure)
    connection.execute("RELEASE job")
    return lambda: future.set_result(result)


def _lock(directory: Path) -> int:
    """Create the folder if need be and lock it; return the descriptor that holds the lock."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StateError(_unusable(directory, error.strerror or str(error))) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise StateError(
            f"{directory}: the poller with process id {owner} is using this folder; "
            "stop it, or name another folder as state.directory"
        ) from error
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def _open(path: Path) -> sqlite3.Connection:
    """Return a connection that writes, its tables brought up to date."""
    try:
        connection = _connect(path)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        damaged = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _DAMAGED
        raise StateError((_damaged if damaged else _unusable)(path, str(error))) from error
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
    complaint = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if complaint != "ok":
        raise StateError(_damaged(path, complaint))
    migrate(connection, MIGRATIONS, path)


def migrate(connection: sqlite3.Connection, scripts: Sequence[str], path: Path) -> None:
    """Run the scripts that the file has not seen, each in its own transaction.

    Raises:
        StateError: the file is of a version that these scripts do not know.

    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(scripts):
        raise StateError(
            f"{path}: written by a newer Sandgauge (version {version} of the store; this one knows {len(scripts)}); "
            "run that Sandgauge again, or move the file away to begin with an empty one"
        )
    for number, script in enumerate(scripts[version:], start=version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")


def _unusable(path: Path, reason: str) -> str:
    return (
        f"{path}: cannot be written ({reason}); let user id {os.geteuid()} write there, "
        "or name another folder as state.directory"
    )


def _damaged(path: Path, reason: str) -> str:
    one_line = " ".join(reason.split())
    return f"{path}: damaged, or no file of Sandgauge ({one_line}); move it away to begin with an empty one"
