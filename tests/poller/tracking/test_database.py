"""The store: one writer, groups that commit together, and what survives kill -9."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from sandgauge_poller.tracking import database as database_module
from sandgauge_poller.tracking.database import Database
from sandgauge_poller.tracking.store_file import StateError
from support.state_rows import add, ids

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


def hold(database):
    """Keep the writer busy until the event is set, so that what is submitted meanwhile makes one group."""
    running, release = threading.Event(), threading.Event()

    def wait(connection):
        running.set()
        release.wait(60)

    database.submit(wait)
    assert running.wait(60)
    return release


def test_result_comes_after_the_commit(database):
    assert database.submit(add("one")).result(60) == "one"
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
    last.result(60)
    assert [future.result(60) for future in futures] == [f"{number:03}" for number in range(50)]
    assert seen_in_between == [[]], "the reader must not see a group before its commit"
    assert len(database.read(ids)) == 50


@pytest.fixture
def endless_patience(monkeypatch):
    monkeypatch.setattr(database_module, "PATIENCE_S", 60.0)


def test_patient_writes_wait_for_one_that_is_not(endless_patience, database):
    patient = [database.submit(add(str(number)), patient=True) for number in range(3)]
    assert database.submit(add("now")).result(60) == "now"
    assert [future.result(60) for future in patient] == ["0", "1", "2"]


def test_a_patient_write_does_not_wait_for_ever(database):
    assert database.submit(add("one"), patient=True).result(60) == "one"


def test_a_write_that_is_not_patient_never_waits(endless_patience, database):
    for number in range(3):
        assert database.submit(add(str(number))).result(60) == str(number)


def test_close_does_not_wait_for_company(endless_patience, tmp_path):
    database = Database(tmp_path)
    patient = database.submit(add("one"), patient=True)
    assert database.close(60)
    assert patient.result(0) == "one"


def test_a_failing_function_is_undone_alone(database):
    def fail(connection):
        add("half")(connection)
        raise LookupError("on purpose")

    release = hold(database)
    before, failing, after = database.submit(add("before")), database.submit(fail), database.submit(add("after"))
    release.set()
    with pytest.raises(LookupError, match="on purpose"):
        failing.result(60)
    assert (before.result(60), after.result(60)) == ("before", "after")
    assert database.read(ids) == ["after", "before"]


def test_a_function_that_sqlite_refuses_is_undone_alone(database):
    release = hold(database)
    before, twin, after = database.submit(add("one")), database.submit(add("one")), database.submit(add("two"))
    release.set()
    with pytest.raises(sqlite3.IntegrityError):
        twin.result(60)
    assert (before.result(60), after.result(60)) == ("one", "two")


def test_when_sqlite_gives_up_the_transaction_every_write_of_it_fails(database):
    def give_up(connection):
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    release = hold(database)
    futures = [database.submit(add("one")), database.submit(give_up), database.submit(add("two"))]
    release.set()
    for future in futures:
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
            future.result(60)
    assert database.read(ids) == []
    assert database.submit(add("three")).result(60) == "three"


def test_a_cancelled_write_that_has_not_begun_never_runs(database):
    release = hold(database)
    cancelled = database.submit(add("one"))
    assert cancelled.cancel()
    release.set()
    database.submit(add("two")).result(60)
    assert database.read(ids) == ["two"]


def test_the_reader_cannot_write(database):
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        database.read(add("one"))


def test_a_read_sees_one_snapshot(database):
    def read(connection):
        before = ids(connection)
        database.submit(add("one")).result(60)
        return before, ids(connection)

    assert database.read(read) == ([], [])
    assert database.read(ids) == ["one"]


def test_close_commits_what_was_submitted(tmp_path):
    database = Database(tmp_path)
    release = hold(database)
    futures = [database.submit(add(str(number))) for number in range(2000)]
    release.set()
    assert database.close(60)
    assert all(future.done() for future in futures)
    with pytest.raises(StateError, match="closed"):
        database.submit(add("late"))
    with pytest.raises(StateError, match="closed"):
        database.read(ids)
    reopened = Database(tmp_path)
    assert len(reopened.read(ids)) == 2000
    assert reopened.close(60)


def test_close_says_when_it_was_not_in_time(tmp_path):
    database = Database(tmp_path)
    release = hold(database)
    assert not database.close(0.01)
    release.set()
    assert database.close(60)


def test_acknowledged_writes_survive_kill_9(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        acknowledged = [int(writer.stdout.readline()) for _ in range(300)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.read().splitlines()]
    database = Database(tmp_path)
    kept = {int(found) for found in database.read(ids)}
    assert kept >= set(acknowledged)
    assert len(kept) <= len(acknowledged) + 1, "at most the one in flight is there unacknowledged"
    assert database.close(60)
