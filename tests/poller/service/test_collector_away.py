"""A Collector that is away from a whole poller, or refuses it for a while: what is kept, bounded and counted."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import psutil
import pytest

from sandgauge_demo.deployment import DeploymentSettings
from sandgauge_demo.loopback import free_ports
from sandgauge_schemas import names
from support.feed import feed, start_span
from support.otlp_proto import points_of, spans_of
from support.otlp_sink import Answer, OtlpSink
from support.outbox_account import account
from support.running_poller import RunningPoller
from support.simulated_osb import osb_in_thread
from support.waiting import wait_until

pytestmark = pytest.mark.load

ALLOCATION = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION
MEMORY = names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB
LIMITS = {"cpu": "500m", "memory": "128Mi"}
QUEUE_BYTES = 128 * 1024
MAX_AGE_S = 3.0


@pytest.fixture(scope="module")
def osb():
    with osb_in_thread(DeploymentSettings(metrics_delay_s=0.02)) as deployment:
        yield deployment


def _poller(directory, osb, sink_endpoint, **export):
    retry = {"initial_interval": "200ms", "max_interval": "500ms"}
    return RunningPoller(
        directory,
        {
            "deployments": [{"name": "training", "endpoint": osb.url, "max_requests_per_second": 500}],
            "sampling": {"collection_interval": "500ms", "min_interval": "500ms"},
            "export": {"endpoint": sink_endpoint, "retry_on_failure": retry, **export},
        },
    )


def _state(poller):
    return poller.config_file.parent / "state"


def test_final_and_passing_answers_in_a_row_leave_an_exact_account(tmp_path, osb):
    in_a_second = format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)
    final = [Answer(status=code) for code in (400, 401, 404, 413, 500)]
    final.append(Answer(status=307, headers={"Location": "http://127.0.0.1:9/v1/traces"}))
    passing = [
        Answer(status=503, headers={"Retry-After": "1"}),
        Answer(status=429),
        Answer(status=503, headers={"Retry-After": in_a_second}),
        Answer(status=502),
        Answer(status=203, headers={"Content-Type": "text/html"}, body=b"<html></html>"),
    ]
    answers = [answer for pair in zip(passing, final, strict=False) for answer in pair] + final[len(passing) :]
    ids = [osb.create(limits=LIMITS) for _ in range(10)]
    with OtlpSink() as sink:
        sink.script(*answers)
        poller = _poller(tmp_path, osb, sink.endpoint)
        with poller:
            feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in ids))
            sink.wait_for(lambda seen: sum(one.status == 200 for one in seen.requests()) >= len(answers))
            for signal in ("traces", "metrics"):
                assert account(_state(poller), signal).is_exact
        assert poller.complaints() == []
        assert sink.violations == []
        for signal in ("traces", "metrics"):
            settled = account(_state(poller), signal)
            assert settled.is_exact
            assert (settled.pending, settled.dropped) == (0, 0)
            refused = [one for one in sink.requests() if one.status in (400, 401, 404, 413, 500, 307)]
            assert settled.rejected == sum(_items(one, signal) for one in refused)
            taken = [one for one in sink.requests() if one.status == 200]
            assert settled.delivered == sum(_items(one, signal) for one in taken)


def _items(request, signal):
    """Count the records of sandboxes in a request; the poller's own metrics have no account."""
    if request.path != f"/v1/{signal}":
        return 0
    if signal == "traces":
        return len(list(spans_of(request.message)))
    return sum(point.name.startswith("gym.sandbox.") for point in points_of(request.message))


def test_memory_and_disk_stay_bounded_while_it_is_away_and_what_is_left_arrives(tmp_path, osb):
    (port,) = free_ports(1)
    ids = [osb.create(limits=LIMITS) for _ in range(60)]
    poller = _poller(tmp_path, osb, f"http://127.0.0.1:{port}", sending_queue={"max_size": f"{QUEUE_BYTES}B"})
    with poller:
        feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in ids))
        state = _state(poller)
        wait_until(lambda: account(state, "metrics").dropped > 0, timeout_s=60, what="a full outbox")
        memory, disk = _memory(poller), _disk(state)
        produced = account(state, "traces").produced
        # Several times what the outbox holds goes through it.
        wait_until(lambda: account(state, "traces").produced > produced + 1500, timeout_s=60, what="more records")
        both = [account(state, signal) for signal in ("traces", "metrics")]
        assert all(one.is_exact for one in both)
        assert sum(one.pending_bytes for one in both) <= QUEUE_BYTES
        assert _memory(poller) - memory < 16 * 2**20
        assert _disk(state) <= disk + 4 * 2**20
        with OtlpSink(port) as sink:
            sink.wait_for(lambda seen: len(seen.spans(ALLOCATION)) == len(ids), 90)
            wait_until(lambda: account(state, "metrics").delivered > 0, timeout_s=90, what="points again")
        assert all(account(state, signal).is_exact for signal in ("traces", "metrics"))
    # Points went first: no allocation was given up for them.
    assert account(_state(poller), "traces").is_exact
    assert poller.complaints() == []


def test_after_an_outage_beyond_the_age_of_points_fresh_ones_come_at_once_and_old_ones_are_counted(tmp_path, osb):
    (port,) = free_ports(1)
    sandbox_id = osb.create(limits=LIMITS)
    poller = _poller(tmp_path, osb, f"http://127.0.0.1:{port}", metrics_max_age=f"{MAX_AGE_S:g}s")
    with poller:
        feed(poller.endpoint, start_span(sandbox_id))
        state = _state(poller)
        wait_until(lambda: account(state, "metrics").produced > 0, timeout_s=60, what="points")
        time.sleep(MAX_AGE_S + 2)  # the outage is to be longer than points may be old
        returned_ns = time.time_ns()
        with OtlpSink(port) as sink:
            sink.wait_for(lambda seen: seen.points(MEMORY) != [])
            first = next(one for one in sink.requests() if _items(one, "metrics"))
            # An interval, the longest pause between attempts, and a busy machine.
            assert first.time_ns - returned_ns < (0.5 + 0.75 + 2.0) * 1e9
            sink.wait_for(lambda seen: max(one.time_ns for one in seen.points(MEMORY)) > returned_ns)
            oldest = min(point.time_ns for point in sink.points(MEMORY))
            assert oldest >= first.time_ns - (MAX_AGE_S + 0.5) * 1e9
            assert len(sink.spans(ALLOCATION)) == 1
            poller.stop()
            left_out = {
                point.value
                for point in sink.points(names.METRIC_SANDGAUGE_POLLER_POINTS_LEFT_OUT)
                if point.attributes[names.REASON] == names.LeftOutReason.AGE.value
            }
            assert sink.violations == []
    settled = account(_state(poller), "metrics")
    assert settled.is_exact
    assert settled.dropped == max(left_out) > 0
    assert poller.complaints() == []


def _memory(poller):
    return psutil.Process(poller.pid).memory_info().rss


def _disk(directory):
    return sum(file.stat().st_size for file in directory.iterdir())
