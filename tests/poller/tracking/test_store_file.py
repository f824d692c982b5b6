"""Opening the store: folder, lock, who may write, and the version of the file."""

import os
import sqlite3
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sandgauge_poller.tracking import store_file
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_poller.tracking.store_file import StateError, migrate


def test_the_folder_is_created_for_its_owner_alone(tmp_path):
    folder = tmp_path / "deep" / "state"
    database = Database(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert database.path == folder / "sandgauge.db"
    assert database.close(60)


def test_a_second_poller_is_refused_with_folder_and_process_id(tmp_path):
    (tmp_path / "sandgauge.lock").write_text("9" * 20)  # of a process that is gone
    first = Database(tmp_path)
    with pytest.raises(StateError, match=f"{tmp_path}.*process id {os.getpid()} is .*state.directory"):
        Database(tmp_path)
    assert first.close(60)
    second = Database(tmp_path)
    assert second.close(60)


def test_a_folder_that_is_a_file_names_the_cure(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(StateError, match=r"state: cannot be written .*user id \d+.*state.directory"):
        Database(tmp_path / "state")


@pytest.fixture
def foreign_folder():
    """Return a folder that another user can look into; root, whom modes do not stop, is someone else for a while."""
    before = os.geteuid()
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        if before == 0:
            os.seteuid(65534)
        yield folder
        os.seteuid(before)


def test_a_folder_that_cannot_be_written_names_owner_and_cure(foreign_folder):
    words = (
        rf"state: cannot be written \(Permission denied\); {foreign_folder} belongs to user id"
        rf" {foreign_folder.stat().st_uid}; let user id {os.geteuid()} write there, .*state.directory"
    )
    with pytest.raises(StateError, match=words):
        Database(foreign_folder / "state")


def test_a_file_that_cannot_be_opened_names_the_cure(tmp_path):
    (tmp_path / "sandgauge.db").mkdir()
    with pytest.raises(StateError, match=r"sandgauge.db: cannot be written .*state.directory"):
        Database(tmp_path)


def test_a_file_that_may_only_be_read_is_refused_at_the_start(monkeypatch, tmp_path):
    assert Database(tmp_path).close(60)

    def connect_to_read(file):
        return sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)

    monkeypatch.setattr(store_file, "connect", connect_to_read)  # as SQLite opens a file that is not this user's
    with pytest.raises(StateError, match=rf"sandgauge.db: cannot be written .*let user id {os.geteuid()} write"):
        Database(tmp_path)


def test_a_newer_store_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "sandgauge.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(StateError, match=r"sandgauge.db: written by a newer Sandgauge \(version 999"):
        Database(tmp_path)


def test_a_refused_file_does_not_keep_the_folder_locked(tmp_path):
    file = tmp_path / "sandgauge.db"
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(StateError):
        Database(tmp_path)
    file.unlink()
    assert Database(tmp_path).close(60)


def test_steps_run_once_and_forward():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    steps = ["CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y"]
    migrate(connection, steps[:1], Path("store"))
    connection.execute("INSERT INTO a VALUES (1)")
    migrate(connection, steps, Path("store"))
    migrate(connection, steps, Path("store"))
    assert connection.execute("SELECT x, y FROM a").fetchall() == [(1, None)]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "store.db"
    connection = sqlite3.connect(file, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, ["CREATE TABLE a (x); CREATE TABLE a (x)"], file)
    connection.close()
    connection = sqlite3.connect(file, isolation_level=None)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


def test_a_fresh_store_has_the_newest_version(database):
    assert database.read(lambda connection: connection.execute("PRAGMA user_version").fetchone()[0]) == len(MIGRATIONS)
