"""The recorder on a real store: records and the progress they come with are kept together, or not at all."""

import asyncio
import sqlite3
import struct
from dataclasses import replace

import pytest

from sandgauge_poller.export import outbox
from sandgauge_poller.tracking import progress_rows
from sandgauge_poller.tracking.progress import End, dump_progress
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import (
    NEMO_GYM_SANDBOX_ID,
    EndReason,
    ExportOutcome,
    Signal,
)
from support.readings import SECOND, T0, allocation, limited, pending, sample, stored, tracked, waiting_spans


async def test_a_reading_and_its_progress_are_kept_together(database, make_recorder):
    sandbox = tracked()
    await make_recorder().sample(sandbox, sample(), 2, is_final=False)
    assert pending(database) == {Signal.TRACES: 1, Signal.METRICS: 4}
    kept = stored(database, sandbox)
    assert (kept.readings, kept.missed) == (1, 2)
    assert kept == sandbox.progress


async def test_ending_closes_the_series_once(database, make_recorder):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.sample(sandbox, sample(), 0, is_final=False)
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    await recorder.ended(sandbox)
    await recorder.ended(sandbox)
    assert pending(database)[Signal.METRICS] == 8


async def test_an_allocation_that_was_not_kept_is_still_news(database, make_recorder, monkeypatch):
    sandbox, recorder = tracked(), make_recorder()
    with monkeypatch.context() as broken:
        broken.setattr(progress_rows, "save", _no_room)
        with pytest.raises(sqlite3.OperationalError):
            await recorder.allocation(sandbox, allocation(0, limited(memory_mib=128.0)))
    await recorder.allocation(sandbox, allocation(0, limited(memory_mib=128.0)))
    assert pending(database)[Signal.TRACES] == 1


async def test_series_that_could_not_be_closed_are_closed_at_the_next_try(database, make_recorder, monkeypatch):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.sample(sandbox, sample(), 0, is_final=False)
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    with monkeypatch.context() as broken:
        broken.setattr(progress_rows, "save", _no_room)
        with pytest.raises(sqlite3.OperationalError):
            await recorder.ended(sandbox)
    await recorder.ended(sandbox)
    assert pending(database)[Signal.METRICS] == 8


async def test_a_summary_that_was_not_kept_is_none(database, make_recorder, monkeypatch):
    sandbox = tracked()
    sandbox.progress.end = End(EndReason.STOPPED, T0)
    monkeypatch.setattr(progress_rows, "save", _no_room)
    with pytest.raises(sqlite3.OperationalError):
        await make_recorder().summary(sandbox)
    assert not sandbox.progress.summarised
    assert pending(database)[Signal.TRACES] == 0


async def test_a_sandbox_that_comes_back_while_its_summary_is_written_is_not_summarised(database, make_recorder):
    sandbox = tracked()
    sandbox.progress.end = End(EndReason.STOPPED, T0)
    writing = asyncio.create_task(make_recorder().summary(sandbox))
    await asyncio.sleep(0)
    sandbox.progress.end = None
    await writing
    assert pending(database)[Signal.TRACES] == 0
    assert not sandbox.progress.summarised


async def test_what_is_known_by_the_time_of_the_commit_is_what_is_stored(database, make_recorder):
    """A sandbox that comes back while its summary waits for its turn is stored as alive, and summarised anew."""
    sandbox, recorder = tracked(), make_recorder()
    first = asyncio.create_task(recorder.sample(sandbox, sample(), 0, is_final=False))
    await asyncio.sleep(0)  # its batch is closed in the loop's next turn, and the change below is in the one after
    await asyncio.sleep(0)
    sandbox.progress.end, sandbox.progress.summarised = End(EndReason.STOPPED, T0), True
    ending = asyncio.create_task(recorder.changed(sandbox))
    await asyncio.sleep(0)
    sandbox.progress.end, sandbox.progress.summarised = None, False
    await asyncio.gather(first, ending)
    kept = stored(database, sandbox)
    assert (kept.end, kept.summarised, kept.readings) == (None, False, 1)


async def test_readings_that_come_together_share_rows_and_each_knows_when_it_is_kept(database, make_recorder):
    recorder, sandboxes = make_recorder(), [tracked(number) for number in range(1, 41)]
    await asyncio.gather(*(recorder.sample(each, sample(), 0, is_final=False) for each in sandboxes))
    assert pending(database) == {Signal.TRACES: 40, Signal.METRICS: 160}
    assert database.read(lambda connection: connection.execute("SELECT count(*) FROM outbox").fetchone()[0]) <= 4
    spans = waiting_spans(database)
    assert sorted(span.attributes[NEMO_GYM_SANDBOX_ID] for span in spans) == sorted(
        each.key.sandbox_id for each in sandboxes
    )
    assert {sandbox_id: seen.readings for (_, sandbox_id), seen in database.read(progress_rows.load_all).items()} == {
        each.key.sandbox_id: 1 for each in sandboxes
    }


async def test_one_who_is_cancelled_takes_nobody_elses_record_along(database, make_recorder):
    recorder, sandboxes = make_recorder(), [tracked(number) for number in range(1, 4)]
    writing = [asyncio.create_task(recorder.sample(each, sample(), 0, is_final=False)) for each in sandboxes]
    await asyncio.sleep(0)
    writing[1].cancel()
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]
    assert pending(database)[Signal.TRACES] == 3


async def test_one_whose_progress_cannot_be_kept_takes_nobody_elses_record_along(database, make_recorder):
    recorder, sick, sound = make_recorder(), tracked(1), tracked(2)
    sick.progress.cpu_zeros = 2**63  # beyond what a tally holds, whatever else may be wrong with one
    zero = replace(sample(), usage=replace(sample().usage, cpu_used_percentage=0.0))
    outcomes = await asyncio.gather(
        recorder.sample(sick, zero, 0, is_final=False),
        recorder.sample(sound, sample(), 0, is_final=False),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], struct.error)
    assert outcomes[1] is None
    assert stored(database, sick) is None
    assert stored(database, sound).readings == 1
    assert pending(database)[Signal.TRACES] == 1
    sick.progress.cpu_zeros = 0
    await recorder.sample(sick, sample(3), 0, is_final=False)
    assert stored(database, sick).readings == 2


async def test_a_reading_writes_no_more_than_its_tally_unless_more_has_changed(database, make_recorder):
    sandbox, recorder = tracked(), make_recorder()
    whole = []
    database_rows = progress_rows.save

    def noted(connection, rows, now_ns):
        whole.extend(row.progress is not None for row in rows)
        database_rows(connection, rows, now_ns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress_rows, "save", noted)
        await recorder.allocation(sandbox, allocation(0, limited(memory_mib=128.0)))
        for at_s in range(1, 5):
            await recorder.sample(sandbox, sample(at_s), 0, is_final=False)
        sandbox.progress.paused = True
        await recorder.sample(sandbox, sample(9), 0, is_final=False)
    assert whole == [True, True, False, False, False, True]  # the first reading begins series and decides scopes
    assert stored(database, sandbox) == sandbox.progress


async def test_a_full_outbox_drops_points_first_and_says_so(database, make_recorder, caplog):
    sandbox, recorder = tracked(), make_recorder(max_outbox_bytes=3000)
    for at_s in range(1, 8):
        await recorder.sample(sandbox, sample(at_s), 0, is_final=False)
    accounts = database.read(outbox.accounts)
    assert sum(account.pending_bytes for account in accounts.values()) <= 3000
    assert accounts[Signal.METRICS].pending < accounts[Signal.TRACES].pending * 4
    assert {record.getMessage().partition(",")[0] for record in caplog.records} == {"the outbox is full"}


def _full(*_):
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


def _refused(*_):
    raise sqlite3.IntegrityError("a fault of our own")


@pytest.mark.parametrize(("fail", "error"), [(_full, StateError), (_refused, sqlite3.IntegrityError)])
async def test_readings_that_could_not_be_stored_are_counted_with_the_next_that_is(
    database, make_recorder, monkeypatch, caplog, *, fail, error
):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.sample(sandbox, sample(1), 0, is_final=False)
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "append", fail)
        for at_s in (2, 3):
            with pytest.raises(error, match=r"make room|our own"):
                await recorder.sample(sandbox, sample(at_s), 0, is_final=False)
    kept = database.read(outbox.accounts)
    assert {account.outcomes[ExportOutcome.DROPPED] for account in kept.values()} == {0}
    for at_s in (4, 5):
        await recorder.sample(sandbox, sample(at_s), 0, is_final=False)
    for signal, items in ((Signal.TRACES, 1), (Signal.METRICS, 4)):
        account = database.read(outbox.accounts)[signal]
        assert account.outcomes[ExportOutcome.PRODUCED] == 5 * items
        assert account.outcomes[ExportOutcome.DROPPED] == 2 * items
        assert account.pending == 3 * items
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("10 spans and points of readings are lost")


async def test_progress_alone_is_kept_too(database, make_recorder):
    sandbox = tracked()
    sandbox.progress.leaked = True
    await make_recorder().changed(sandbox)
    assert dump_progress(stored(database, sandbox)) == dump_progress(sandbox.progress)


def _no_room(*_):
    raise sqlite3.OperationalError("database or disk is full")
