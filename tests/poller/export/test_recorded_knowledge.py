"""What a recorder knows beside the reading at hand: kills, requests, and the neighbours on the same machine."""

from sandgauge_poller.ingest.events import RequestEvent
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageObservation
from sandgauge_poller.tracking import store
from sandgauge_poller.tracking.progress import End
from sandgauge_poller.tracking.store import EventRow
from sandgauge_schemas.names import (
    SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
    EndReason,
    ResourceSource,
    SampleScope,
    ScopeEvidence,
    Signal,
)
from sandgauge_schemas.records import (
    JoinKeys,
    RequestRecord,
    SampleRecord,
    Sidecar,
    SummaryRecord,
)
from sandgauge_schemas.resources import SandboxResources
from support.readings import SECOND, T0, allocation, limited, pending, sample, stored, tracked, waiting_spans, window


def used(at_s, cpu_time_s):
    observation = UsageObservation(timestamp_ns=T0 + at_s * SECOND, cpu_time_s=cpu_time_s)
    return UsageAnswer(window=window(at_s), source=ResourceSource.DOCKER_STATS, observation=observation)


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
    spans = {span.name: span.attributes for span in waiting_spans(database)}
    summary = SummaryRecord.from_attributes(spans[SPAN_GYM_SANDBOX_RESOURCE_SUMMARY])
    assert (summary.oom_killed, summary.oom_kills) == (True, 1)


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
    (span,) = waiting_spans(database)
    summary = SummaryRecord.from_attributes(span.attributes)
    assert (summary.requested_count, summary.requested, summary.sidecars) == (2, request.requested, request.sidecars)
    assert sandbox.progress.summarised
    assert stored(database, sandbox).summarised


async def test_different_limits_under_one_total_on_one_docker_host_betray_the_node(database, make_recorder):
    recorder, small, large = make_recorder(), tracked(1), tracked(2)
    await recorder.allocation(small, allocation(0, limited(memory_mib=960.0)))
    await recorder.allocation(large, allocation(0, limited(memory_mib=1100.0)))
    await recorder.sample(small, sample(memory_total_mib=1000.0), 0, is_final=False)
    await recorder.sample(large, sample(memory_total_mib=1000.0), 0, is_final=False)
    assert (large.progress.memory.scope, large.progress.memory.evidence) == (
        SampleScope.NODE,
        ScopeEvidence.SHARED_TOTAL,
    )


async def test_the_only_reading_of_a_sandbox_that_ended_meanwhile_says_whose_machine_it_is(database, make_recorder):
    sandbox, recorder = tracked(), make_recorder()
    await recorder.allocation(sandbox, allocation(0, limited(memory_mib=128.0)))
    sandbox.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    await recorder.ended(sandbox)
    await recorder.sample(sandbox, sample(memory_total_mib=1000.0), 0, is_final=False)
    await recorder.summary(sandbox)
    spans = {span.name: span.attributes for span in waiting_spans(database)}
    read = SampleRecord.from_attributes(spans[SPAN_GYM_SANDBOX_RESOURCE_SAMPLE])
    assert (read.memory_scope, read.memory_scope_evidence) == (SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT)
    assert (read.cpu_scope, read.cpu_scope_evidence) == (SampleScope.NODE, ScopeEvidence.TOTAL_EXCEEDS_LIMIT)
    summary = SummaryRecord.from_attributes(spans[SPAN_GYM_SANDBOX_RESOURCE_SUMMARY])
    assert (summary.memory_scope, summary.cpu_scope) == (SampleScope.NODE, SampleScope.NODE)


async def test_a_sandbox_that_has_ended_is_nobodys_neighbour(database, make_recorder):
    recorder, ended, alive = make_recorder(), tracked(1), tracked(2)
    await recorder.allocation(ended, allocation(0, limited(memory_mib=960.0)))
    await recorder.allocation(alive, allocation(0, limited(memory_mib=1100.0)))
    ended.progress.end = End(EndReason.STOPPED, T0 + 2 * SECOND)
    await recorder.sample(ended, sample(memory_total_mib=1000.0), 0, is_final=False)
    await recorder.sample(alive, sample(memory_total_mib=1000.0), 0, is_final=False)
    assert alive.progress.memory.scope is SampleScope.SANDBOX
