"""The state of every released version: a poller of today goes on from it, with every sandbox and every record."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from sandgauge_poller.tracking.database import STORE_FILE
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_schemas import names
from support.delivered import assert_one_form_of_each_span, ids_in
from support.feed import feed, start_span
from support.state_fixture import ENDED, LIVING, ROLLOUT, TRACES, UNREAD, load

ALLOCATION, SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION, names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
STATES = Path(__file__).parents[2] / "fixtures" / "state"


def test_each_version_of_the_store_is_kept():
    assert {file.stem for file in STATES.iterdir()} == {f"v{number + 1}" for number in range(len(MIGRATIONS))}


@pytest.mark.parametrize("script", sorted(STATES.iterdir()), ids=lambda script: script.stem)
def test_the_active_set_is_whole(osb, make_poller, otlp_sink, tmp_path, script):
    (tmp_path / "state").mkdir()
    file = tmp_path / "state" / STORE_FILE
    load(script, file)
    for sandbox_id in (*LIVING, "stopped-before-start"):
        osb.create(id=sandbox_id, limits={"cpu": "500m", "memory": "128Mi"})
    poller = make_poller()
    started_ns = time.time_ns()

    def read_now(sink):
        return {
            span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in sink.spans(SAMPLE) if span.start_ns >= started_ns
        }

    with poller:
        restored = [entry["message"] for entry in poller.log() if "restored" in entry["message"]]
        assert restored == [f"ready: 1 deployment, {len(LIVING) + len((ENDED, UNREAD))} sandboxes restored"]
        feed(poller.endpoint, start_span("stopped-before-start"))
        otlp_sink.wait_for(lambda sink: read_now(sink) >= set(LIVING))
        otlp_sink.wait_for(lambda sink: ids_in(sink, SUMMARY) == {ENDED, "stopped-before-start"})
    assert read_now(otlp_sink) <= {*LIVING, "stopped-before-start"}, "what has ended is not read"
    # The records that waited are sent as they were, and the new ones go on from them.
    assert {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in otlp_sink.spans(ALLOCATION)} >= {*LIVING, ENDED}
    by_trace = {span.trace_id: span for span in otlp_sink.spans(SAMPLE) if span.start_ns >= started_ns}
    assert by_trace[TRACES[LIVING[0]]].attributes[names.NEMO_GYM_ROLLOUT_ID] == ROLLOUT
    assert_one_form_of_each_span(otlp_sink)
    with closing(sqlite3.connect(file)) as store:
        assert store.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
