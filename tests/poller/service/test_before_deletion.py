"""The reading before deletion through a whole poller: asked for over HTTP, recorded, marked and counted."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandgauge_demo.deployment import Route
from sandgauge_schemas import names
from support.direct_session import direct_session
from support.feed import feed, start_span, stop_span

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
FINAL = names.NEMO_GYM_SANDBOX_SAMPLE_FINAL
OFTEN = {"sampling": {"collection_interval": "2s"}}
SELDOM = {"sampling": {"collection_interval": "1h"}}


def ask(poller, sandbox_id):
    """Ask for a reading; return the status and how long the answer took."""
    begun = time.monotonic()
    url = f"{poller.endpoint}/v1/sandboxes/{sandbox_id}/final-reading"
    with direct_session() as session:
        answer = session.post(url, timeout=60)
    return answer.status_code, time.monotonic() - begun


def samples(seen, sandbox_id):
    return [span for span in seen.spans(SAMPLE) if span.attributes[names.NEMO_GYM_SANDBOX_ID] == sandbox_id]


def finals(seen):
    return [span for span in seen.spans(SAMPLE) if span.attributes.get(FINAL)]


def summary(sink, sandbox_id):
    sink.wait_for(lambda seen: seen.spans(SUMMARY))
    (found,) = sink.spans(SUMMARY)
    assert found.attributes[names.NEMO_GYM_SANDBOX_ID] == sandbox_id
    return found.attributes


@pytest.mark.load  # for the clock that it looks at
def test_a_sandbox_is_read_once_more_before_it_is_deleted(osb, make_poller, otlp_sink):
    sandbox_id, neighbour = osb.create(limits={"cpu": "500m", "memory": "128Mi"}), osb.create()
    with make_poller(**OFTEN) as poller:
        feed(poller.endpoint, start_span(sandbox_id), start_span(neighbour))
        otlp_sink.wait_for(lambda seen: len(samples(seen, sandbox_id)) >= 2)
        asked_ns = time.time_ns()
        status, took_s = ask(poller, sandbox_id)
        assert status == 200
        assert took_s < 2
        asked = osb.count(Route.EXECD, sandbox_id)
        osb.delete(sandbox_id)
        otlp_sink.wait_for(finals)
        read = len(samples(otlp_sink, neighbour))
        otlp_sink.wait_for(lambda seen: len(samples(seen, neighbour)) >= read + 2)
        # More than an interval has gone by, and nobody has read what is about to go.
        assert osb.count(Route.EXECD, sandbox_id) == asked
        feed(poller.endpoint, stop_span(sandbox_id))
        found = summary(otlp_sink, sandbox_id)
    (last,) = finals(otlp_sink)
    assert last == max(samples(otlp_sink, sandbox_id), key=lambda span: span.start_ns)
    assert last.end_ns > asked_ns
    assert last.attributes[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] == "ok"
    assert {span.attributes[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] for span in samples(otlp_sink, sandbox_id)} == {
        "ok"
    }
    assert found[names.NEMO_GYM_SANDBOX_READINGS_COUNT] == len(samples(otlp_sink, sandbox_id))
    assert found[names.NEMO_GYM_SANDBOX_READINGS_MISSED] == 0
    used = last.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_USED_MIB]
    assert found[names.NEMO_GYM_SANDBOX_SUMMARY_MEMORY_USED_MIB_LAST] == used
    times = {point.time_ns for point in otlp_sink.points(names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB)}
    assert last.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS] * 10**6 in times


def test_a_sandbox_that_is_not_read_is_answered_at_once(osb, make_poller):
    not_read = osb.create()
    with make_poller() as poller:
        feed(poller.endpoint, start_span(not_read, attributes={names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S: 0.0}))
        for sandbox_id in (not_read, "never-heard-of"):
            answers = [ask(poller, sandbox_id) for _ in range(5)]
            assert {status for status, _ in answers} == {202}
            assert min(took_s for _, took_s in answers) < 0.5
        assert ask(poller, "no%20id")[0] == 400
    assert osb.count(Route.EXECD, not_read) == 0


@pytest.mark.load  # for the clock that it looks at
def test_a_daemon_that_hangs_holds_a_deletion_no_longer_than_two_seconds(osb, make_poller, otlp_sink):
    ids = [osb.create() for _ in range(3)]
    with make_poller(**SELDOM) as poller:
        feed(poller.endpoint, *map(start_span, ids))
        otlp_sink.wait_for(lambda seen: all(samples(seen, sandbox_id) for sandbox_id in ids))
        osb.fault(Route.EXECD, hang=True)
        answers = [ask(poller, sandbox_id) for sandbox_id in ids]
        assert {status for status, _ in answers} == {503}
        # The poller's own bound is a tenth of a second below: a busy machine makes some longer and none shorter.
        assert min(took_s for _, took_s in answers) < 2
        otlp_sink.wait_for(lambda seen: len(finals(seen)) == len(ids))
    assert {span.attributes[names.ERROR_TYPE] for span in finals(otlp_sink)} == {"timeout"}


def test_a_deletion_that_failed_is_read_on(osb, make_poller, otlp_sink):
    sandbox_id = osb.create()
    with make_poller(**OFTEN) as poller:
        feed(poller.endpoint, start_span(sandbox_id))
        otlp_sink.wait_for(lambda seen: samples(seen, sandbox_id))
        assert ask(poller, sandbox_id)[0] == 200
        otlp_sink.wait_for(finals)
        feed(poller.endpoint, stop_span(sandbox_id, failed=True))
        otlp_sink.wait_for(lambda seen: samples(seen, sandbox_id)[-1].start_ns > finals(seen)[0].end_ns)
        osb.delete(sandbox_id)
        feed(poller.endpoint, stop_span(sandbox_id))
        found = summary(otlp_sink, sandbox_id)
    assert found[names.NEMO_GYM_SANDBOX_READINGS_MISSED] == 0
    assert len(finals(otlp_sink)) == 1


@pytest.mark.load  # for the clock that it looks at
def test_fifty_are_read_at_once(osb, make_poller, otlp_sink):
    ids = [osb.create() for _ in range(50)]
    with make_poller(**SELDOM) as poller:
        feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in ids))
        otlp_sink.wait_for(
            lambda seen: {s.attributes[names.NEMO_GYM_SANDBOX_ID] for s in seen.spans(SAMPLE)} == set(ids)
        )
        with ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(lambda sandbox_id: ask(poller, sandbox_id), ids))
        assert {status for status, _ in answers} == {200}
        assert max(took_s for _, took_s in answers) < 2
        otlp_sink.wait_for(lambda seen: len(finals(seen)) == len(ids))
    assert {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in finals(otlp_sink)} == set(ids)
    assert {span.attributes[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] for span in finals(otlp_sink)} == {"ok"}
