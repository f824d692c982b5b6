"""The recorder on a real store: records and the progress they come with are kept together, or not at all."""

import asyncio
import sqlite3
import struct
from dataclasses import replace

import pytest
from opentelemetry.metrics import NoOpMeter

from sandgauge_poller.export import outbox
from sandgauge_poller.export.recorder import Recorder
from sandgauge_poller.export.sandbox_encoding import PointSettings
from sandgauge_poller.ingest.events import RequestEvent, StartEvent
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.provider import AllocationReading, ReadWindow, SampleReading, Usage
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageObservation
from sandgauge_poller.self_histograms import SelfHistograms
from sandgauge_poller.self_metrics import SelfMetrics
from sandgauge_poller.tracking import progress_rows, store
from sandgauge_poller.tracking.active_set import SandboxKey, Tracked
from sandgauge_poller.tracking.fold import Lifecycle
from sandgauge_poller.tracking.progress import End, dump_progress
from sandgauge_poller.tracking.routing import RouteOutcome
from sandgauge_poller.tracking.store import EventRow
from sandgauge_poller.tracking.store_file import StateError
from sandgauge_schemas.names import (
    NEMO_GYM_SANDBOX_ID,
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    EndReason,
    ExportOutcome,
    ResourceSource,
    SampleScope,
    ScopeEvidence,
    Signal,
)
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import (
    Allocation,
    ComponentAllocation,
    JoinKeys,
    RequestRecord,
    SampleRecord,
    Sidecar,
    StartRecord,
    SummaryRecord,
)
from sandgauge_schemas.resources import SandboxResourceAmounts, SandboxResources
from support.otlp_proto import spans_of_payloads

T0 = 1_795_000_000_000_000_000
SECOND = 10**9


@pytest.fixture
def make_recorder(database):
    def make(max_outbox_bytes=2**20, known_kills=lambda _: None):
        return Recorder(
            database,
            PointSettings(metrics=True, rollout_id=True, request_id=True, max_clock_skew_ns=60 * SECOND),
            max_outbox_bytes=max_outbox_bytes,
            clock=Clock(now_ns=lambda: T0 + 100 * SECOND),
            metrics=SelfMetrics(NoOpMeter("tests"), SelfHistograms("tests")),
            wake=lambda: None,
            known_kills=known_kills,
        )

    return make


def tracked(number=1):
    keys = JoinKeys(run_id="run-1", request_id="q-1", sandbox_id=f"sb-{number}", provider="opensandbox")
    start = StartEvent(
        trace_id=bytes([number]) * 16,
        span_id=bytes([number]) * 8,
        start_ns=T0 - SECOND,
        end_ns=T0,
        received_ns=T0,
        record=StartRecord(keys=keys),
    )
    key = SandboxKey("training", f"sb-{number}")
    return Tracked(key, "training", RouteOutcome.MATCHED, Lifecycle(start=start))


def limited(memory_mib, host=None):
    amounts = SandboxResourceAmounts(memory_mib=memory_mib)
    designator = Identity("docker-container", "http://osb", "240b23285899")
    components = (ComponentAllocation(name="sandbox", limits=amounts),)
    return AllocationReading(
        window=ReadWindow(T0, T0 + SECOND),
        source=ResourceSource.OPENSANDBOX_INSPECT_DOCKER,
        allocation=Allocation(components=components, designator=designator, host=host),
    )


def reading(at_s=1, total_mib=1000.0):
    usage = Usage(
        timestamp_ms=(T0 + at_s * SECOND) // 10**6,
        cpu_count=2.0,
        cpu_used_percentage=1.0,
        memory_total_mib=total_mib,
        memory_used_mib=1.0,
    )
    window = ReadWindow(T0 + at_s * SECOND, T0 + (at_s + 1) * SECOND)
    return SampleReading(window=window, source=ResourceSource.OPENSANDBOX_EXECD, usage=usage)


def pending(database):
    return {signal: account.pending for signal, account in database.read(outbox.accounts).items()}


def stored(database, sandbox):
    return database.read(progress_rows.load_all).get(sandbox.key)


async def test_a_reading_and_its_progress_are_kept_together(database, make_recorder):
    sandbox = tracked()
    await make_recorder().sample(sandbox, reading(), 2, is_final=False)
    assert pending(database) == {Signal.TRACES: 1, Signal.METRICS: 4}
    kept = stored(database, sandbox)
    assert (kept.readings, kept.missed) == (1, 2)
    assert kept == sandbox.progress


async def test_ending_closes_the_series_once(database, make_recorder):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.sample(sandbox, reading(), 0, is_final=False)
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    await recorder.ended(sandbox)
    await recorder.ended(sandbox)
    assert pending(database)[Signal.METRICS] == 8


def used(at_s, cpu_time_s):
    observation = UsageObservation(timestamp_ns=T0 + at_s * SECOND, cpu_time_s=cpu_time_s)
    window = ReadWindow(T0 + at_s * SECOND, T0 + at_s * SECOND + 10**6)
    return UsageAnswer(window=window, source=ResourceSource.DOCKER_STATS, observation=observation)


async def test_usage_and_its_progress_are_kept_together_and_the_same_twice_only_once(database, make_recorder):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.usage(sandbox, used(1, 0.5), None, 0)
    assert pending(database) == {Signal.TRACES: 1, Signal.METRICS: 1}
    kept = stored(database, sandbox)
    assert kept == sandbox.progress
    await recorder.usage(sandbox, used(1, 0.5), None, 0)
    assert pending(database) == {Signal.TRACES: 1, Signal.METRICS: 1}
    await recorder.usage(sandbox, used(11, 5.5), Kills(since_ns=T0, count=1), 0)
    assert pending(database) == {Signal.TRACES: 2, Signal.METRICS: 4}
    assert stored(database, sandbox).usage.kills == 1


async def test_kills_alone_are_kept_where_they_are_news(database, make_recorder):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.usage(sandbox, used(1, 0.5), Kills(since_ns=T0, count=0), 0)
    await recorder.usage(sandbox, used(1, 0.5), Kills(since_ns=T0, count=2), 0)
    assert stored(database, sandbox).usage.kills == 2
    assert pending(database)[Signal.TRACES] == 1


async def test_the_kill_that_ended_a_sandbox_is_in_its_last_point_and_its_summary(database, make_recorder):
    last = Kills(since_ns=T0, count=1, main_killed=True)
    recorder = make_recorder(known_kills=lambda _: (ResourceSource.DOCKER_STATS, last))
    sandbox = tracked()
    await recorder.usage(sandbox, used(1, 0.5), Kills(since_ns=T0, count=0), 0)
    before = pending(database)[Signal.METRICS]
    sandbox.progress.end = End(EndReason.FAILED, T0 + 2 * SECOND)
    await recorder.ended(sandbox)
    assert pending(database)[Signal.METRICS] == before + 3  # its last word, and the ends of two series
    await recorder.summary(sandbox)
    batch = database.read(lambda connection: outbox.take(connection, Signal.TRACES, max_bytes=2**20, max_rows=9))
    spans = {span.name: span.attributes for span in spans_of_payloads(batch.payloads)}
    summary = SummaryRecord.from_attributes(spans[SPAN_GYM_SANDBOX_RESOURCE_SUMMARY])
    assert (summary.oom_killed, summary.oom_kills) == (True, 1)


async def test_an_allocation_that_was_not_kept_is_still_news(database, make_recorder, monkeypatch):
    sandbox, recorder = tracked(), make_recorder()
    with monkeypatch.context() as broken:
        broken.setattr(progress_rows, "save", _no_room)
        with pytest.raises(sqlite3.OperationalError):
            await recorder.allocation(sandbox, limited(128.0))
    await recorder.allocation(sandbox, limited(128.0))
    assert pending(database)[Signal.TRACES] == 1


async def test_series_that_could_not_be_closed_are_closed_at_the_next_try(database, make_recorder, monkeypatch):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.sample(sandbox, reading(), 0, is_final=False)
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    with monkeypatch.context() as broken:
        broken.setattr(progress_rows, "save", _no_room)
        with pytest.raises(sqlite3.OperationalError):
            await recorder.ended(sandbox)
    await recorder.ended(sandbox)
    assert pending(database)[Signal.METRICS] == 8


async def test_a_summary_echoes_the_request_that_came_before_or_after(database, make_recorder):
    sandbox = tracked()
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    request = RequestRecord(
        keys=JoinKeys(request_id="q-1"),
        count=2,
        requested=SandboxResources(cpu=2),
        sidecars=(Sidecar(name="egress", resources=SandboxResources(cpu=1)),),
    )
    event = RequestEvent(trace_id=b"t" * 16, span_id=b"s" * 8, received_ns=T0, record=request)
    await database.write(lambda connection: store.insert_events(connection, [EventRow(event, None)]))
    await make_recorder().summary(sandbox)
    batch = database.read(lambda connection: outbox.take(connection, Signal.TRACES, max_bytes=2**20, max_rows=9))
    (span,) = spans_of_payloads(batch.payloads)
    summary = SummaryRecord.from_attributes(span.attributes)
    assert (summary.requested_count, summary.requested, summary.sidecars) == (2, request.requested, request.sidecars)
    assert sandbox.progress.summarised
    assert stored(database, sandbox).summarised


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
    first = asyncio.create_task(recorder.sample(sandbox, reading(), 0, is_final=False))
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
    await asyncio.gather(*(recorder.sample(each, reading(), 0, is_final=False) for each in sandboxes))
    assert pending(database) == {Signal.TRACES: 40, Signal.METRICS: 160}
    assert database.read(lambda connection: connection.execute("SELECT count(*) FROM outbox").fetchone()[0]) <= 4
    batch = database.read(lambda connection: outbox.take(connection, Signal.TRACES, max_bytes=2**20, max_rows=9))
    spans = spans_of_payloads(batch.payloads)
    assert sorted(span.attributes[NEMO_GYM_SANDBOX_ID] for span in spans) == sorted(
        each.key.sandbox_id for each in sandboxes
    )
    assert {sandbox_id: seen.readings for (_, sandbox_id), seen in database.read(progress_rows.load_all).items()} == {
        each.key.sandbox_id: 1 for each in sandboxes
    }


async def test_one_who_is_cancelled_takes_nobody_elses_record_along(database, make_recorder):
    recorder, sandboxes = make_recorder(), [tracked(number) for number in range(1, 4)]
    writing = [asyncio.create_task(recorder.sample(each, reading(), 0, is_final=False)) for each in sandboxes]
    await asyncio.sleep(0)
    writing[1].cancel()
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), asyncio.CancelledError, type(None)]
    assert pending(database)[Signal.TRACES] == 3


async def test_one_whose_progress_cannot_be_kept_takes_nobody_elses_record_along(database, make_recorder):
    recorder, sick, sound = make_recorder(), tracked(1), tracked(2)
    sick.progress.cpu_zeros = 2**63  # beyond what a tally holds, whatever else may be wrong with one
    zero = replace(reading(), usage=replace(reading().usage, cpu_used_percentage=0.0))
    outcomes = await asyncio.gather(
        recorder.sample(sick, zero, 0, is_final=False),
        recorder.sample(sound, reading(), 0, is_final=False),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], struct.error)
    assert outcomes[1] is None
    assert stored(database, sick) is None
    assert stored(database, sound).readings == 1
    assert pending(database)[Signal.TRACES] == 1
    sick.progress.cpu_zeros = 0
    await recorder.sample(sick, reading(3), 0, is_final=False)
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
        await recorder.allocation(sandbox, limited(128.0))
        for at_s in range(1, 5):
            await recorder.sample(sandbox, reading(at_s), 0, is_final=False)
        sandbox.progress.paused = True
        await recorder.sample(sandbox, reading(9), 0, is_final=False)
    assert whole == [True, True, False, False, False, True]  # the first reading begins series and decides scopes
    assert stored(database, sandbox) == sandbox.progress


async def test_different_limits_under_one_total_on_one_docker_host_betray_the_node(database, make_recorder):
    recorder, small, large = make_recorder(), tracked(1), tracked(2)
    await recorder.allocation(small, limited(960.0))
    await recorder.allocation(large, limited(1100.0))
    await recorder.sample(small, reading(), 0, is_final=False)
    await recorder.sample(large, reading(), 0, is_final=False)
    assert (large.progress.memory.scope, large.progress.memory.evidence) == (
        SampleScope.NODE,
        ScopeEvidence.SHARED_TOTAL,
    )


async def test_the_only_reading_of_a_sandbox_that_ended_meanwhile_says_whose_machine_it_is(database, make_recorder):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.allocation(sandbox, limited(128.0))
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    await recorder.ended(sandbox)
    await recorder.sample(sandbox, reading(), 0, is_final=False)
    await recorder.summary(sandbox)
    batch = database.read(lambda connection: outbox.take(connection, Signal.TRACES, max_bytes=2**20, max_rows=9))
    spans = {span.name: span.attributes for span in spans_of_payloads(batch.payloads)}
    sample = SampleRecord.from_attributes(spans[SPAN_GYM_SANDBOX_RESOURCE_SAMPLE])
    assert (sample.memory_scope, sample.memory_scope_evidence) == (SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT)
    assert (sample.cpu_scope, sample.cpu_scope_evidence) == (SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT)
    summary = SummaryRecord.from_attributes(spans[SPAN_GYM_SANDBOX_RESOURCE_SUMMARY])
    assert (summary.memory_scope, summary.cpu_scope) == (SampleScope.NODE, SampleScope.NODE)


async def test_a_sandbox_that_has_ended_is_nobodys_neighbour(database, make_recorder):
    recorder, ended, alive = make_recorder(), tracked(1), tracked(2)
    await recorder.allocation(ended, limited(960.0))
    await recorder.allocation(alive, limited(1100.0))
    ended.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    await recorder.sample(ended, reading(), 0, is_final=False)
    await recorder.sample(alive, reading(), 0, is_final=False)
    assert alive.progress.memory.scope is SampleScope.SANDBOX


async def test_a_full_outbox_drops_points_first_and_says_so(database, make_recorder, caplog):
    sandbox, recorder = tracked(), make_recorder(max_outbox_bytes=3000)
    for at_s in range(1, 8):
        await recorder.sample(sandbox, reading(at_s), 0, is_final=False)
    accounts = database.read(outbox.accounts)
    assert sum(account.pending_bytes for account in accounts.values()) <= 3000
    assert accounts[Signal.METRICS].pending < accounts[Signal.TRACES].pending * 4
    assert {record.getMessage().partition(",")[0] for record in caplog.records} == {"the outbox is full"}


async def test_readings_that_the_disk_could_not_take_are_counted_once_there_is_room(
    database, make_recorder, monkeypatch, caplog
):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.sample(sandbox, reading(1), 0, is_final=False)
    with monkeypatch.context() as full:
        full.setattr(outbox, "append", _full)
        for at_s in (2, 3):
            with pytest.raises(StateError, match="make room"):
                await recorder.sample(sandbox, reading(at_s), 0, is_final=False)
    kept = database.read(outbox.accounts)
    assert {account.outcomes[ExportOutcome.DROPPED] for account in kept.values()} == {0}
    for at_s in (4, 5):
        await recorder.sample(sandbox, reading(at_s), 0, is_final=False)
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


def _full(*_):
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    raise error


def _no_room(*_):
    raise sqlite3.OperationalError("database or disk is full")
