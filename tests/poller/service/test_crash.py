"""kill -9 at any moment under load: nothing acknowledged is forgotten, nothing is sent in two forms."""

import random
import secrets
import sqlite3
import threading
import time
from contextlib import closing

import pytest
import requests

from sandgauge_schemas import names
from support.delivered import assert_one_form_of_each_span, assert_series_rise_and_close_once, ids_in
from support.feed import feed, start_span, stop_span

pytestmark = pytest.mark.load

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY

ROUNDS = 21
"""A death in each, and one more on the way up in every fifth: 26."""
LASTING = 30
PASSING = 5
INTERVAL_S = 1.0
FIRST_SAMPLE_WITHIN_S = INTERVAL_S + 2.0


class Fleet:
    """Starts and stops sandboxes without pause; like the Collector, it sends each span until that is acknowledged."""

    def __init__(self, osb, endpoint):
        self._osb, self._endpoint = osb, endpoint
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet")
        self.lasting, self.passing = [], []
        self.acknowledged = set()
        """Sandboxes whose start was answered 200."""
        self.resent = 0
        self.failure = None

    def begin(self):
        self.lasting = [self._start() for _ in range(LASTING)]
        self._thread.start()

    def end(self):
        """Stop everything that still runs."""
        self._ending.set()
        self._thread.join(60)
        assert self.failure is None
        for sandbox_id in self.lasting + self.passing:
            self._stop(sandbox_id)

    def _run(self):
        try:
            while not self._ending.wait(0.01):
                self.passing.append(self._start())
                if len(self.passing) > PASSING:
                    self._stop(self.passing.pop(0))
        except BaseException as error:
            self.failure = error
            raise

    def _start(self):
        sandbox_id = self._osb.create(limits={"cpu": "500m", "memory": "128Mi"})
        self._send(start_span(sandbox_id))
        self.acknowledged.add(sandbox_id)
        return sandbox_id

    def _stop(self, sandbox_id):
        self._osb.delete(sandbox_id)
        self._send(stop_span(sandbox_id))

    def _send(self, span):
        while True:
            try:
                feed(self._endpoint, span)
            except requests.RequestException:
                self.resent += 1
                time.sleep(0.05)
            else:
                return


def first_readings(sink, sandbox_ids, ready_ns):
    """Wait until each sandbox was read after the moment (ns since the epoch); return the seconds until each was."""
    first = {}

    def all_read(sink):
        for span in sink.spans(SAMPLE):
            if span.start_ns >= ready_ns:
                sandbox_id = span.attributes[names.NEMO_GYM_SANDBOX_ID]
                first[sandbox_id] = min(span.start_ns, first.get(sandbox_id, span.start_ns))
        return first.keys() >= sandbox_ids

    sink.wait_for(all_read)
    return [(first[sandbox_id] - ready_ns) / 1e9 for sandbox_id in sandbox_ids]


@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_forgotten(osb, make_poller, otlp_sink, tmp_path):
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    moments = random.Random(seed)  # of death
    poller = make_poller()
    lags = []
    poller.start()
    ready_ns = time.time_ns()
    fleet = Fleet(osb, poller.endpoint)
    fleet.begin()
    try:
        for number in range(ROUNDS):
            if number % 5 == 4:
                # Now and then it lives until it has read every sandbox that lasts.
                lags += first_readings(otlp_sink, set(fleet.lasting), ready_ns)
            time.sleep(moments.uniform(0.0, 1.0))
            poller.kill()
            if number % 5 == 0:
                # Now and then it dies on its way up.
                poller.launch()
                time.sleep(moments.uniform(0.3, 1.2))
                poller.kill()
            poller.start()
            ready_ns = time.time_ns()
    finally:
        fleet.end()
    otlp_sink.wait_for(lambda sink: ids_in(sink, SUMMARY) >= fleet.acknowledged)
    assert poller.stop() == 0
    print(
        f"{len(fleet.acknowledged)} sandboxes, {fleet.resent} spans sent again, first samples after {max(lags):.2f} s"
        f" at most, {len(otlp_sink.spans())} spans and {len(otlp_sink.points())} points came"
    )
    assert max(lags) <= FIRST_SAMPLE_WITHIN_S
    assert ids_in(otlp_sink, SUMMARY) == fleet.acknowledged
    summaries = {(span.trace_id, span.span_id) for span in otlp_sink.spans(SUMMARY)}
    assert len(summaries) == len(fleet.acknowledged)
    assert_one_form_of_each_span(otlp_sink)
    assert assert_series_rise_and_close_once(otlp_sink) >= set(fleet.lasting)
    assert_state_is_whole(tmp_path / "state" / "sandgauge.db")


def assert_state_is_whole(file):
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        query = "SELECT produced, delivered + rejected + dropped + pending, rejected, dropped FROM outbox_account"
        for produced, accounted, *lost in connection.execute(query):
            assert (accounted, lost) == (produced, [0, 0])
