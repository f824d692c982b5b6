"""The one SQLite file of a poller: one writer thread with group commit, one reader.

WAL with synchronous=NORMAL: what is committed survives the death of the process, kill -9 included. A power cut may
take the last moments with it, and leaves the file whole. A disk that cannot take a write is tried again; a file that
turns out to be damaged is the end of this database, and is set aside when it closes; one that is removed ends it too.
"""

import asyncio
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from sandgauge_poller.tracking import schema
from sandgauge_poller.tracking.store_file import (
    LOST_WITH_THE_STORE,
    DamagedError,
    RemovedError,
    StateError,
    as_state_error,
    connect,
    is_unusable,
    lock,
    open_store,
    place,
    set_aside,
    shortage,
    try_to_write,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

STORE_FILE = "sandgauge.db"
LOCK_FILE = "sandgauge.lock"
PATIENCE_S = 0.1
"""How long a patient write waits for company."""

_MAX_GROUP = 1000
"""Most functions in one transaction: a bound on how long the first of them waits for its commit."""
_TRY_AGAIN_S = 1.0
"""How often a disk that could not take a write is tried where nobody else writes."""

_LOOK_S = 5.0
"""How often an idle database looks whether its disk has room."""

_Job = tuple[Callable[[sqlite3.Connection], Any], Future[Any]]


class Database:
    """The store in `<directory>/sandgauge.db`, owned by this process alone until `close`.

    Functions get a connection inside a transaction and return plain values, never a cursor. Callers await what they
    submit, so the backlog is bounded by how many they are.

    Raises:
        StateError: the folder cannot be written, another poller owns it, or the file is of a newer version.

    """

    def __init__(self, directory: Path) -> None:
        self.path = directory.absolute() / STORE_FILE
        self._lock_descriptor = lock(directory.absolute() / LOCK_FILE)
        try:
            self._writer = open_store(self.path)
            self._reader = connect(self.path)
            self._reader.execute("PRAGMA query_only = ON")
            self._schema_version = schema.version(self._writer)
            self._places = {file: place(file) for file in (self.path, self.path.with_name(LOCK_FILE))}
        except BaseException:
            os.close(self._lock_descriptor)
            raise
        self._reader_lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._hurry = threading.Event()
        self._submit_lock = threading.Lock()
        self._closed = False
        self._failure: StateError | None = None
        self.damage: Future[None] = Future()
        """Fails with a DamagedError once the file is found damaged or gone; nothing can be stored from then on."""
        self.damage.set_running_or_notify_cancel()  # whoever stops to wait for it does not cancel it
        self._thread = threading.Thread(target=self._run, name="sandgauge-writer", daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[sqlite3.Connection], T], *, patient: bool = False) -> Future[T]:
        """Run the function in the next transaction; the future holds its result once that is committed.

        A function that raises is undone alone; its exception goes to its own future, which holds a StateError where the
        disk cannot take the write. A patient one may wait PATIENCE_S for others to share the commit, which is most of
        the cost where many write.

        Raises:
            StateError: the database is closed.

        """
        future: Future[T] = Future()
        with self._submit_lock:
            if self._closed:
                raise StateError(f"{self.path}: closed; nothing can be written any more")
            self._jobs.put((function, future))
        if not patient:
            self.hurry()
        return future

    def hurry(self) -> None:
        """Let the patient writes that wait be committed now."""
        self._hurry.set()

    async def write(self, function: Callable[[sqlite3.Connection], T], *, patient: bool = False) -> T:
        """Return the function's result once its transaction is committed; see `submit`."""
        return await asyncio.wrap_future(self.submit(function, patient=patient))

    @property
    def trouble(self) -> str | None:
        """Why the last commit failed, or the next one may, else None. An idle database looks by itself now and then."""
        failure = self._failure
        return None if failure is None else str(failure)

    def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run the function on one snapshot of what is committed; from any thread, one at a time.

        Raises:
            StateError: the database is closed, or its file is damaged.

        """
        with self._reader_lock:
            if self._closed:
                raise StateError(f"{self.path}: closed; nothing can be read any more")
            try:
                self._reader.execute("BEGIN")
                self._check_schema(self._reader)
                return function(self._reader)
            except DamagedError as damage:
                self._end_for(damage)
                raise
            except sqlite3.Error as error:
                failure = as_state_error(error, self.path)
                if not isinstance(failure, DamagedError):
                    raise
                self._end_for(failure)
                raise failure from error
            finally:
                _roll_back(self._reader)

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
                self._commit(group)
        with self._reader_lock, suppress(sqlite3.Error):
            self._reader.close()
        with suppress(sqlite3.Error):
            self._writer.close()
        if self.damage.done() and not isinstance(self.damage.exception(), RemovedError):
            self._set_aside()
        os.close(self._lock_descriptor)

    def _set_aside(self) -> None:
        """Move the damaged file away now: the check of the next start may miss what was met here, time and again."""
        try:
            kept = set_aside(self.path, str(self.damage.exception()))
        except (StateError, OSError) as error:
            logger.error("%s", error)  # noqa: TRY400  # no fault of the program's, so no traceback
        else:
            logger.error("%s: kept as %s; %s", self.path, kept.name, LOST_WITH_THE_STORE)

    def _next_group(self) -> tuple[list[_Job], bool]:
        """Wait for a function, then take all that are there; True when the closing mark was among them."""
        try:
            job = self._jobs.get(timeout=_LOOK_S if self._failure is None else _TRY_AGAIN_S)
        except queue.Empty:
            if self._failure is None:
                self._look_for_room()
                return [], False
            return [(lambda connection: try_to_write(connection, self.path), Future())], False
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

    def _commit(self, group: Sequence[_Job]) -> None:
        """Run a group in one transaction and then resolve its futures; when the commit fails, all of them fail."""
        connection = self._writer
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._check_schema(connection)
            resolutions = [_run_job(connection, function, future) for function, future in group]
            connection.execute("COMMIT")
            self._check_places()
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers get it and the thread lives on
            _roll_back(connection)
            failure = as_state_error(error, self.path)
            if isinstance(failure, StateError):
                self._note(failure)
            for _, future in group:
                future.set_exception(failure)
            return
        self._look_for_room()
        for resolve in resolutions:
            resolve()

    def _look_for_room(self) -> None:
        """Take note of a full disk before a write fails: a small one may fit where no span or reading does any more."""
        failure = shortage(self.path)
        if failure is None and self._failure is not None:
            logger.info("%s: can be written again", self.path)
        if failure is not None and self._failure is None:
            self._note(failure)
        self._failure = failure

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Make sure that nobody has taken a table away: what is asked of the others would fail, or be wrong."""
        version = schema.version(connection)
        if version == self._schema_version:
            return
        lost = schema.damage(connection)
        if lost is not None:
            raise DamagedError(self.path, lost)
        self._schema_version = version

    def _check_places(self) -> None:
        """Make sure that what was committed is there for the next start, and that no other poller can begin here."""
        for file, opened in self._places.items():
            if place(file) != opened:
                raise RemovedError(file)

    def _note(self, failure: StateError) -> None:
        """Take note that nothing can be stored: every reading and every request meets it."""
        self._failure = failure
        if isinstance(failure, DamagedError):
            self._end_for(failure)
        else:
            logger.error("%s; nothing is stored meanwhile", failure)

    def _end_for(self, damage: DamagedError) -> None:
        with suppress(InvalidStateError):  # the reader and the writer may both meet it
            self.damage.set_exception(damage)


def _roll_back(connection: sqlite3.Connection) -> None:
    """End the transaction if there is one; a damaged file may refuse even that."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _run_job(
    connection: sqlite3.Connection, function: Callable[[sqlite3.Connection], Any], future: Future[Any]
) -> Callable[[], None]:
    """Run one function under its savepoint; return what resolves its future after the commit.

    Its exception is raised here, and fails the whole group, only where SQLite gave up the transaction with it or where
    the disk is to blame.
    """
    connection.execute("SAVEPOINT job")
    try:
        result = function(connection)
    except Exception as error:
        if not connection.in_transaction or is_unusable(error):
            raise
        failure = error
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return lambda: future.set_exception(failure)
    connection.execute("RELEASE job")
    return lambda: future.set_result(result)
