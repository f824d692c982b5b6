"""A Collector away for longer than the outbox holds: what matters least goes first, and all else goes on."""

import sqlite3
from contextlib import closing

import pytest

from sandgauge_demo.deployment import Route
from sandgauge_demo.loopback import free_ports
from sandgauge_schemas import names
from support.delivered import assert_one_form_of_each_span, ids_in
from support.feed import feed, start_span, stop_span
from support.otlp_sink import OtlpSink
from support.waiting import wait_until

pytestmark = pytest.mark.load

ALLOCATION, SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
MAX_SIZE = 64 * 1024
ACCOUNT = "SELECT signal, produced, delivered, rejected, dropped, pending, pending_bytes FROM outbox_account"


def account(file):
    """Return the counts of each signal, all of one moment; those that do not add up fail the test."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60)) as store:
        rows = store.execute(ACCOUNT).fetchall()
    assert all(produced == sum(others) for _, produced, *others, _ in rows)
    assert sum(row[-1] for row in rows) <= MAX_SIZE
    columns = ("delivered", "rejected", "dropped", "pending")
    return {signal: dict(zip(columns, counts, strict=True)) for signal, _, *counts, _ in rows}


def produced_and_settled(file):
    """Count the spans so far, and those of them that the outbox is done with."""
    counts = account(file)["traces"]
    return sum(counts.values()), sum(counts.values()) - counts["pending"]


def test_points_go_first_then_samples_and_what_lasts_stays(osb, make_poller, tmp_path):
    (port,) = free_ports(1)
    file = tmp_path / "state" / "sandgauge.db"
    poller = make_poller(
        sampling={"collection_interval": "500ms", "min_interval": "500ms"},
        export={
            "endpoint": f"http://127.0.0.1:{port}",
            "sending_queue": {"max_size": "64KiB"},
            "retry_on_failure": {"initial_interval": "100ms", "max_interval": "500ms"},
        },
    )
    poller.start()
    sandbox_ids = [osb.create(limits={"cpu": "1", "memory": "128Mi"}) for _ in range(16)]
    feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in sandbox_ids))
    seen = []

    def samples_dropped():
        seen.append(account(file))
        return seen[-1]["traces"]["dropped"] > 0

    wait_until(samples_dropped, timeout_s=60, what="samples that are dropped")
    assert [found for found in seen if found["metrics"]["dropped"] and not found["traces"]["dropped"]], (
        "points go before any span"
    )
    # Full as it is, spans come in, sandboxes are read, and what lasts finds a place.
    late = [osb.create(limits={"cpu": "2"}) for _ in range(4)]
    feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in late))
    ended = sandbox_ids[:4]
    for sandbox_id in ended:
        osb.delete(sandbox_id)
    feed(poller.endpoint, *(stop_span(sandbox_id) for sandbox_id in ended))
    for sandbox_id in late:
        osb.wait_for(3, Route.EXECD, sandbox_id)
    with OtlpSink(port) as sink:
        sink.wait_for(lambda sink: ids_in(sink, ALLOCATION) >= {*sandbox_ids, *late})
        sink.wait_for(lambda sink: ids_in(sink, SUMMARY) == set(ended))
        produced, _ = produced_and_settled(file)
        wait_until(
            lambda: produced_and_settled(file)[1] >= produced, timeout_s=60, what="an outbox rid of all that it held"
        )
        assert poller.stop() == 0
        assert_one_form_of_each_span(sink)
        assert sink.violations == []
        counted = account(file)
        assert counted["traces"]["rejected"] == counted["metrics"]["rejected"] == 0
        arrived = len({(span.trace_id, span.span_id) for span in sink.spans()})
        # What was dropped while it was on its way arrives all the same.
        assert counted["traces"]["delivered"] <= arrived <= sum(counted["traces"].values())
    said = [entry["message"] for entry in poller.log() if "outbox is full" in entry["message"]]
    assert len([line for line in said if "times since" not in line]) == 1
    assert len(said) <= 2, "once, and at the end how often it came again"
