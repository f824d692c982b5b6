"""The store on a disk that is full, spoils its file or loses it: what is said, what is set aside, what goes on."""

import errno
import os
import sqlite3
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest

from sandgauge_poller.tracking import database as database_module
from sandgauge_poller.tracking import store_file
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.store_file import DamagedError, RemovedError, StateError
from support.state_rows import add, ids
from support.waiting import wait_until


def limit_pages(connection, most):
    """Let the file grow no further than that, as a full disk does."""
    connection.execute(f"PRAGMA max_page_count = {most}")


def no_growth(connection):
    limit_pages(connection, connection.execute("PRAGMA page_count").fetchone()[0])


def test_a_full_disk_fails_the_writes_and_not_the_writer(database):
    database.submit(no_growth).result(60)
    with pytest.raises(StateError, match=r"sandgauge.db: cannot be written \(database or disk is full\); make room"):
        database.submit(add("x" * 1_000_000)).result(60)
    database.submit(lambda connection: limit_pages(connection, 100_000)).result(60)
    assert database.submit(add("one")).result(60) == "one"
    assert database.read(ids) == ["one"]


def test_a_store_in_trouble_says_why_until_the_next_good_commit(database, monkeypatch):
    monkeypatch.setattr(database_module, "_TRY_AGAIN_S", 60)
    assert database.trouble is None
    database.submit(no_growth).result(60)
    with pytest.raises(StateError):
        database.submit(add("x" * 1_000_000)).result(60)
    assert "sandgauge.db: cannot be written (database or disk is full); make room" in database.trouble
    with pytest.raises(StateError):
        database.submit(add("x" * 1_000_000)).result(60)
    database.submit(lambda connection: limit_pages(connection, 100_000)).result(60)
    assert database.trouble is None


def test_an_idle_store_finds_out_by_itself_that_there_is_room_again(database, monkeypatch, caplog):
    is_full = threading.Event()
    is_full.set()
    tries = []

    def try_to_write(connection, file):
        tries.append(file)
        if is_full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        store_file.try_to_write(connection, file)

    monkeypatch.setattr(database_module, "_TRY_AGAIN_S", 0.01)
    monkeypatch.setattr(database_module, "try_to_write", try_to_write)
    database.submit(add("one")).result(60)
    assert tries == []
    database.submit(no_growth).result(60)
    with pytest.raises(StateError):
        database.submit(add("x" * 1_000_000)).result(60)
    wait_until(lambda: len(tries) > 2, timeout_s=60, what="tries")
    assert "No space left on device" in database.trouble
    is_full.clear()
    wait_until(lambda: database.trouble is None, timeout_s=60, what="a store that knows of its room")
    known = len(tries)
    assert database.submit(lambda connection: connection.execute("SELECT 1").fetchone()).result(60) == (1,)
    assert len(tries) == known
    left = {file.name for file in database.path.parent.iterdir()}
    assert left == {"sandgauge.db", "sandgauge.db-shm", "sandgauge.db-wal", "sandgauge.lock"}


def test_while_there_is_no_room_a_small_write_that_fits_is_no_sign_of_health(database, monkeypatch):
    monkeypatch.setattr(database_module, "_TRY_AGAIN_S", 60)
    disk = SimpleNamespace(f_blocks=1000, f_bavail=63, f_frsize=4096)
    monkeypatch.setattr(store_file.os, "statvfs", lambda _: disk)
    assert database.submit(add("one")).result(60) == "one"
    assert "cannot be written (No space left on device); make room" in database.trouble
    assert database.submit(add("two")).result(60) == "two"
    assert database.trouble is not None
    disk.f_bavail = 64
    assert database.submit(add("three")).result(60) == "three"
    assert database.trouble is None
    disk.f_blocks = disk.f_bavail = 0  # a file system that says nothing of its size
    assert database.submit(add("four")).result(60) == "four"
    assert database.trouble is None


def damage(database):
    """Spoil the whole file below a running database, and have its writer forget what it read."""
    database.submit(lambda connection: connection.execute("PRAGMA shrink_memory") and None).result(60)
    for file in (database.path, database.path.with_name("sandgauge.db-wal")):
        with file.open("r+b") as spoilt:
            size = spoilt.seek(0, os.SEEK_END)
            spoilt.seek(0)
            spoilt.write(b"x" * size)


def set_aside(folder):
    return sorted(file.name for file in folder.iterdir() if "damaged" in file.name)


@pytest.mark.parametrize("who", ["writer", "reader"])
def test_damage_met_while_it_runs_is_its_end_and_the_file_is_set_aside(tmp_path, caplog, who):
    database = Database(tmp_path)
    database.submit(add("one")).result(60)
    assert not database.damage.done()
    damage(database)
    with pytest.raises(DamagedError, match=r"sandgauge.db: damaged \(.*\); it is set aside, so start the poller again"):
        database.read(ids) if who == "reader" else database.submit(add("two")).result(60)
    with pytest.raises(DamagedError, match="damaged"):
        database.damage.result(60)
    with pytest.raises(DamagedError):
        database.submit(add("two")).result(60)
    assert database.close(60)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "kept as sandgauge.db.damaged-1; sandboxes that it knew are read no more" in line
    database = Database(tmp_path)
    assert database.read(ids) == []
    assert database.submit(add("three")).result(60) == "three"
    assert database.close(60)
    assert set_aside(tmp_path) == ["sandgauge.db.damaged-1"]


def test_damage_that_was_met_too_often_is_said_and_the_file_stays(tmp_path, caplog):
    for number in (1, 2, 3):
        (tmp_path / f"sandgauge.db.damaged-{number}").touch()
    database = Database(tmp_path)
    damage(database)
    with pytest.raises(DamagedError):
        database.read(ids)
    assert database.close(60)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "check the disk" in line
    assert database.path.exists()


def change_schema(folder, statement):
    """Do what somebody does who has opened the file beside the poller."""
    with closing(sqlite3.connect(folder / "sandgauge.db")) as other:
        other.execute(statement)
        other.commit()


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("DROP TABLE tally", "table tally"),
        ("DROP TRIGGER outbox_removed", "trigger outbox_removed"),
        ("ALTER TABLE sandbox ADD COLUMN mine", "table sandbox"),
    ],
)
@pytest.mark.parametrize("who", ["writer", "reader", "next start"])
def test_a_table_that_is_taken_away_is_damage_like_any_other(tmp_path, caplog, statement, lost, who):
    database = Database(tmp_path)
    database.submit(add("one")).result(60)
    if who == "next start":
        assert database.close(60)
        change_schema(tmp_path, statement)
    else:
        change_schema(tmp_path, statement)
        with pytest.raises(DamagedError, match=rf"damaged \({lost}: removed or changed\); it is set aside"):
            database.read(ids) if who == "reader" else database.submit(add("two")).result(60)
        with pytest.raises(DamagedError):
            database.damage.result(60)
        assert database.close(60)
    database = Database(tmp_path)
    assert database.read(ids) == []
    assert database.submit(add("three")).result(60) == "three"
    assert database.close(60)
    assert set_aside(tmp_path) == ["sandgauge.db.damaged-1"]
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_what_somebody_adds_does_no_harm_nor_does_an_index_that_is_gone(tmp_path):
    database = Database(tmp_path)
    for number, statement in enumerate(("CREATE TABLE mine (id)", "DROP INDEX event_subject", "ANALYZE")):
        change_schema(tmp_path, statement)
        assert database.submit(add(str(number))).result(60) == str(number)
        assert len(database.read(ids)) == number + 1
    assert database.close(60)
    database = Database(tmp_path)
    assert database.read(ids) == ["0", "1", "2"]
    assert database.close(60)


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("name", ["sandgauge.db", "sandgauge.lock"])
def test_a_file_that_is_removed_below_it_is_its_end_and_what_took_its_place_stays(tmp_path, name, is_replaced):
    database = Database(tmp_path)
    database.submit(add("one")).result(60)
    file = tmp_path / name
    file.rename(tmp_path / "elsewhere")
    if is_replaced:
        file.write_bytes(b"of another")
    with pytest.raises(RemovedError, match=f"{name}: removed or replaced while .* start the poller again"):
        database.submit(add("two")).result(60)
    with pytest.raises(RemovedError):
        database.damage.result(60)
    assert database.close(60)
    assert set_aside(tmp_path) == []
    assert not is_replaced or file.read_bytes() == b"of another"


@pytest.mark.parametrize("noise", [bytes(range(256)) * 32, b"x" * 4096, b"SQLite format 3\0" + bytes(4096)])
def test_noise_is_set_aside_and_said(tmp_path, caplog, noise):
    (tmp_path / "sandgauge.db").write_bytes(noise)
    database = Database(tmp_path)
    assert database.submit(add("one")).result(60) == "one"
    assert database.close(60)
    assert (tmp_path / "sandgauge.db.damaged-1").read_bytes() == noise
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{tmp_path / 'sandgauge.db'}: damaged")
    assert "kept as sandgauge.db.damaged-1" in line
    assert "read no more" in line


def test_damage_in_the_middle_is_noticed_at_the_start(tmp_path):
    database = Database(tmp_path)
    for number in range(5000):
        database.submit(add(f"{number:040}"))
    assert database.close(60)
    file = tmp_path / "sandgauge.db"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4096] = bytes(4096)
    file.write_bytes(content)
    database = Database(tmp_path)
    assert database.read(ids) == []
    assert database.close(60)
    assert (tmp_path / "sandgauge.db.damaged-1").read_bytes() == content


def test_damaged_files_never_pile_up(tmp_path):
    file = tmp_path / "sandgauge.db"
    for _ in range(3):
        file.write_bytes(b"x" * 4096)
        assert Database(tmp_path).close(60)
    file.write_bytes(b"x" * 4096)
    with pytest.raises(StateError, match=r"sandgauge.db: damaged .*3 others .*check the disk"):
        Database(tmp_path)
    assert set_aside(tmp_path) == [f"sandgauge.db.damaged-{number}" for number in (1, 2, 3)]
