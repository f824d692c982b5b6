"""The store: one owner, one writer, groups that commit together, and what survives kill -9."""

import asyncio
import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sandgauge_poller.tracking import database as database_module
from sandgauge_poller.tracking import store_file
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_poller.tracking.store_file import DamagedError, RemovedError, StateError, migrate
from support.waiting import wait_until

WRITER = """
import sys
from pathlib import Path
from sandgauge_poller.tracking import database as database_module
from sandgauge_poller.tracking.database import Database

database = Database(Path(sys.argv[1]))
for number in range(1_000_000):
    statement = "INSERT INTO sandbox (owner, sandbox_id, state, updated_ns) VALUES ('a', ?, 'live', 0)"
    database.submit(lambda connection: connection.execute(statement, (str(number),)) and None).result()
    print(number, flush=True)
"""


def add(sandbox_id):
    def write(connection):
        connection.execute(
            "INSERT INTO sandbox (owner, sandbox_id, state, updated_ns) VALUES ('a', ?, 'live', 0)", (sandbox_id,)
        )
        return sandbox_id

    return write


def ids(connection):
    return [row[0] for row in connection.execute("SELECT sandbox_id FROM sandbox ORDER BY sandbox_id")]


def hold(database):
    """Keep the writer busy until the event is set, so that what is submitted meanwhile makes one group."""
    running, release = threading.Event(), threading.Event()

    def wait(connection):
        running.set()
        release.wait(10)

    database.submit(wait)
    assert running.wait(10)
    return release


@pytest.fixture
def database(tmp_path):
    opened = Database(tmp_path / "state")
    yield opened
    assert opened.close(10)


def test_result_comes_after_the_commit(database):
    assert database.submit(add("one")).result(10) == "one"
    assert database.read(ids) == ["one"]


async def test_write_returns_on_the_loop(database):
    assert await asyncio.gather(database.write(add("one")), database.write(add("two"))) == ["one", "two"]
    assert database.read(ids) == ["one", "two"]


def test_what_waits_is_committed_in_one_transaction(database):
    release = hold(database)
    seen_in_between = []
    futures = [database.submit(add(f"{number:03}")) for number in range(50)]
    last = database.submit(lambda connection: seen_in_between.append(database.read(ids)))
    release.set()
    last.result(10)
    assert [future.result(10) for future in futures] == [f"{number:03}" for number in range(50)]
    assert seen_in_between == [[]], "the reader must not see a group before its commit"
    assert len(database.read(ids)) == 50


@pytest.fixture
def endless_patience(monkeypatch):
    monkeypatch.setattr(database_module, "PATIENCE_S", 60.0)


def test_patient_writes_wait_for_one_that_is_not(endless_patience, database):
    patient = [database.submit(add(str(number)), patient=True) for number in range(3)]
    assert database.submit(add("now")).result(10) == "now"
    assert [future.result(10) for future in patient] == ["0", "1", "2"]


def test_a_patient_write_does_not_wait_for_ever(database):
    assert database.submit(add("one"), patient=True).result(10) == "one"


def test_a_write_that_is_not_patient_never_waits(endless_patience, database):
    for number in range(3):
        assert database.submit(add(str(number))).result(10) == str(number)


def test_close_does_not_wait_for_company(endless_patience, tmp_path):
    database = Database(tmp_path)
    patient = database.submit(add("one"), patient=True)
    assert database.close(10)
    assert patient.result(0) == "one"


def test_a_failing_function_is_undone_alone(database):
    def fail(connection):
        add("half")(connection)
        raise LookupError("on purpose")

    release = hold(database)
    before, failing, after = database.submit(add("before")), database.submit(fail), database.submit(add("after"))
    release.set()
    with pytest.raises(LookupError, match="on purpose"):
        failing.result(10)
    assert (before.result(10), after.result(10)) == ("before", "after")
    assert database.read(ids) == ["after", "before"]


def test_a_function_that_sqlite_refuses_is_undone_alone(database):
    release = hold(database)
    before, twin, after = database.submit(add("one")), database.submit(add("one")), database.submit(add("two"))
    release.set()
    with pytest.raises(sqlite3.IntegrityError):
        twin.result(10)
    assert (before.result(10), after.result(10)) == ("one", "two")


def test_a_full_disk_fails_the_writes_and_not_the_writer(database):
    def fill(connection):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")

    database.submit(fill).result(10)
    with pytest.raises(StateError, match=r"sandgauge.db: cannot be written \(database or disk is full\); make room"):
        database.submit(add("x" * 1_000_000)).result(10)
    database.submit(lambda connection: connection.execute("PRAGMA max_page_count = 100000") and None).result(10)
    assert database.submit(add("one")).result(10) == "one"
    assert database.read(ids) == ["one"]


def limit_pages(connection, most):
    """Let the file grow no further than that, as a full disk does."""
    connection.execute(f"PRAGMA max_page_count = {most}")


def no_growth(connection):
    limit_pages(connection, connection.execute("PRAGMA page_count").fetchone()[0])


def test_a_store_in_trouble_says_why_until_the_next_good_commit(database, monkeypatch):
    monkeypatch.setattr(database_module, "_TRY_AGAIN_S", 60)
    assert database.trouble is None
    database.submit(no_growth).result(10)
    with pytest.raises(StateError):
        database.submit(add("x" * 1_000_000)).result(10)
    assert "sandgauge.db: cannot be written (database or disk is full); make room" in database.trouble
    with pytest.raises(StateError):
        database.submit(add("x" * 1_000_000)).result(10)
    database.submit(lambda connection: limit_pages(connection, 100_000)).result(10)
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
    database.submit(add("one")).result(10)
    assert tries == []
    database.submit(no_growth).result(10)
    with pytest.raises(StateError):
        database.submit(add("x" * 1_000_000)).result(10)
    wait_until(lambda: len(tries) > 2, timeout_s=60, what="tries")
    assert "No space left on device" in database.trouble
    is_full.clear()
    wait_until(lambda: database.trouble is None, timeout_s=60, what="a store that knows of its room")
    known = len(tries)
    assert database.submit(lambda connection: connection.execute("SELECT 1").fetchone()).result(10) == (1,)
    assert len(tries) == known
    left = {file.name for file in database.path.parent.iterdir()}
    assert left == {"sandgauge.db", "sandgauge.db-shm", "sandgauge.db-wal", "sandgauge.lock"}


def damage(database):
    """Spoil the whole file below a running database, and have its writer forget what it read."""
    database.submit(lambda connection: connection.execute("PRAGMA shrink_memory") and None).result(10)
    for file in (database.path, database.path.with_name("sandgauge.db-wal")):
        with file.open("r+b") as spoilt:
            size = spoilt.seek(0, os.SEEK_END)
            spoilt.seek(0)
            spoilt.write(b"x" * size)


@pytest.mark.parametrize("who", ["writer", "reader"])
def test_damage_met_while_it_runs_is_its_end_and_the_file_is_set_aside(tmp_path, caplog, who):
    database = Database(tmp_path)
    database.submit(add("one")).result(10)
    assert not database.damage.done()
    damage(database)
    with pytest.raises(DamagedError, match=r"sandgauge.db: damaged \(.*\); it is set aside, so start the poller again"):
        database.read(ids) if who == "reader" else database.submit(add("two")).result(10)
    with pytest.raises(DamagedError, match="damaged"):
        database.damage.result(10)
    with pytest.raises(DamagedError):
        database.submit(add("two")).result(10)
    assert database.close(10)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "kept as sandgauge.db.damaged-1; sandboxes that it knew are read no more" in line
    database = Database(tmp_path)
    assert database.read(ids) == []
    assert database.submit(add("three")).result(10) == "three"
    assert database.close(10)
    assert set_aside(tmp_path) == ["sandgauge.db.damaged-1"]


def test_damage_that_was_met_too_often_is_said_and_the_file_stays(tmp_path, caplog):
    for number in (1, 2, 3):
        (tmp_path / f"sandgauge.db.damaged-{number}").touch()
    database = Database(tmp_path)
    damage(database)
    with pytest.raises(DamagedError):
        database.read(ids)
    assert database.close(10)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "check the disk" in line
    assert database.path.exists()


@pytest.mark.parametrize("is_replaced", [False, True])
@pytest.mark.parametrize("name", ["sandgauge.db", "sandgauge.lock"])
def test_a_file_that_is_removed_below_it_is_its_end_and_what_took_its_place_stays(tmp_path, name, is_replaced):
    database = Database(tmp_path)
    database.submit(add("one")).result(10)
    file = tmp_path / name
    file.rename(tmp_path / "elsewhere")
    if is_replaced:
        file.write_bytes(b"of another")
    with pytest.raises(RemovedError, match=f"{name}: removed or replaced while .* start the poller again"):
        database.submit(add("two")).result(10)
    with pytest.raises(RemovedError):
        database.damage.result(10)
    assert database.close(10)
    assert set_aside(tmp_path) == []
    assert not is_replaced or file.read_bytes() == b"of another"


def test_when_sqlite_gives_up_the_transaction_every_write_of_it_fails(database):
    def give_up(connection):
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    release = hold(database)
    futures = [database.submit(add("one")), database.submit(give_up), database.submit(add("two"))]
    release.set()
    for future in futures:
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
            future.result(10)
    assert database.read(ids) == []
    assert database.submit(add("three")).result(10) == "three"


def test_a_cancelled_write_that_has_not_begun_never_runs(database):
    release = hold(database)
    cancelled = database.submit(add("one"))
    assert cancelled.cancel()
    release.set()
    database.submit(add("two")).result(10)
    assert database.read(ids) == ["two"]


def test_the_reader_cannot_write(database):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        database.read(add("one"))


def test_a_read_sees_one_snapshot(database):
    def read(connection):
        before = ids(connection)
        database.submit(add("one")).result(10)
        return before, ids(connection)

    assert database.read(read) == ([], [])
    assert database.read(ids) == ["one"]


def test_close_commits_what_was_submitted(tmp_path):
    database = Database(tmp_path)
    release = hold(database)
    futures = [database.submit(add(str(number))) for number in range(2000)]
    release.set()
    assert database.close(10)
    assert all(future.done() for future in futures)
    with pytest.raises(StateError, match="closed"):
        database.submit(add("late"))
    with pytest.raises(StateError, match="closed"):
        database.read(ids)
    reopened = Database(tmp_path)
    assert len(reopened.read(ids)) == 2000
    assert reopened.close(10)


def test_close_says_when_it_was_not_in_time(tmp_path):
    database = Database(tmp_path)
    release = hold(database)
    assert not database.close(0.01)
    release.set()
    assert database.close(10)


def test_acknowledged_writes_survive_kill_9(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        acknowledged = [int(writer.stdout.readline()) for _ in range(300)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
    database = Database(tmp_path)
    kept = {int(found) for found in database.read(ids)}
    assert kept >= set(acknowledged)
    assert len(kept) <= len(acknowledged) + 1, "at most the one in flight is there unacknowledged"
    assert database.close(10)


def test_the_folder_is_created_for_its_owner_alone(tmp_path):
    folder = tmp_path / "deep" / "state"
    database = Database(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert database.path == folder / "sandgauge.db"
    assert database.close(10)


def test_a_second_poller_is_refused_with_folder_and_process_id(tmp_path):
    (tmp_path / "sandgauge.lock").write_text("9" * 20)  # of a process that is gone
    first = Database(tmp_path)
    with pytest.raises(StateError, match=f"{tmp_path}.*process id {os.getpid()} is .*state.directory"):
        Database(tmp_path)
    assert first.close(10)
    second = Database(tmp_path)
    assert second.close(10)


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


def set_aside(folder):
    return sorted(file.name for file in folder.iterdir() if "damaged" in file.name)


@pytest.mark.parametrize("noise", [bytes(range(256)) * 32, b"x" * 4096, b"SQLite format 3\0" + bytes(4096)])
def test_noise_is_set_aside_and_said(tmp_path, caplog, noise):
    (tmp_path / "sandgauge.db").write_bytes(noise)
    database = Database(tmp_path)
    assert database.submit(add("one")).result(10) == "one"
    assert database.close(10)
    assert (tmp_path / "sandgauge.db.damaged-1").read_bytes() == noise
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{tmp_path / 'sandgauge.db'}: damaged")
    assert "kept as sandgauge.db.damaged-1" in line
    assert "read no more" in line


def test_damage_in_the_middle_is_noticed_at_the_start(tmp_path):
    database = Database(tmp_path)
    for number in range(5000):
        database.submit(add(f"{number:040}"))
    assert database.close(10)
    file = tmp_path / "sandgauge.db"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4096] = bytes(4096)
    file.write_bytes(content)
    database = Database(tmp_path)
    assert database.read(ids) == []
    assert database.close(10)
    assert (tmp_path / "sandgauge.db.damaged-1").read_bytes() == content


def test_damaged_files_never_pile_up(tmp_path):
    file = tmp_path / "sandgauge.db"
    for _ in range(3):
        file.write_bytes(b"x" * 4096)
        assert Database(tmp_path).close(10)
    file.write_bytes(b"x" * 4096)
    with pytest.raises(StateError, match=r"sandgauge.db: damaged .*3 others .*check the disk"):
        Database(tmp_path)
    assert set_aside(tmp_path) == [f"sandgauge.db.damaged-{number}" for number in (1, 2, 3)]


def test_a_file_that_may_only_be_read_is_refused_at_the_start(monkeypatch, tmp_path):
    assert Database(tmp_path).close(10)

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
    assert Database(tmp_path).close(10)


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
