"""A Collector that answers anything, or nothing: every record is accounted for, and what can go on goes on."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import cycle

import psutil
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sandgauge_demo.deployment import DeploymentSettings
from sandgauge_demo.loopback import free_ports
from sandgauge_poller.export import outbox
from sandgauge_poller.export.collector_client import CollectorClient, CollectorSettings
from sandgauge_poller.export.delivery import Delivery, DeliverySettings
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_poller.tracking.database import Database
from sandgauge_schemas import names
from sandgauge_schemas.names import Signal
from support.feed import feed, start_span
from support.hostile_daemons import response, says, says_for_ever, says_nothing
from support.otlp_proto import encoded_span, points_of, spans_of
from support.otlp_sink import Answer, OtlpSink
from support.outbox_account import account
from support.raw_collector import RawCollector
from support.running_poller import RunningPoller
from support.simulated_osb import osb_in_thread
from support.waiting import wait_until

pytestmark = pytest.mark.load

ROWS = 4
FAST = DeliverySettings(timeout_s=1.5, initial_interval_s=0.05, max_interval_s=0.2)
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def status(code, reason="Reason", **headers):
    return says(
        response(b"no", status=f"{code} {reason}", headers={k.replace("_", "-"): v for k, v in headers.items()})
    )


def partial(rejected, message=""):
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = message
    return says(response(answer.SerializeToString(), headers=PROTOBUF))


async def closes_its_half(reader, writer):
    """Say that nothing will come, and keep the connection until the sender leaves."""
    writer.write_eof()
    await reader.read()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HALF = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nhalf"
# What the first request meets, and how many of its spans that refuses for good.
FAULTS = {
    "reset": (says(), 0),
    "silence": (says_nothing, 0),
    "slow": (says(3.0, response()), 0),
    "a-head-that-drips": (says_for_ever(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n", 0.2), 0),
    "a-body-that-drips": (says_for_ever(response(length=1000), b"x", 0.1), 0),
    "chunks-that-drip": (says_for_ever(CHUNKED, b"1\r\nx\r\n", 0.1), 0),
    "half-closed": (closes_its_half, 0),
    "half-an-answer": (says(HALF), 0),
    "half-an-answer-kept-open": (says(HALF, 6.0), 0),
    "no-http": (says(b"220 mail.invalid ESMTP\r\n"), 0),
    "html-with-200": (says(response(b"<html>log in</html>", headers={"Content-Type": "text/html"})), 0),
    "text-with-200": (says(response(b"ok", headers={"Content-Type": "text/plain"})), 0),
    "no-protobuf-with-200": (says(response(b"\xff\xff\xff", headers=PROTOBUF)), 0),
    **{f"{code}": (status(code), 0) for code in (429, 502, 503, 504)},
    **{f"{code}": (status(code), ROWS) for code in (400, 401, 403, 404, 405, 413, 415, 422, 500, 501)},
    **{f"{code}": (status(code, Location="http://127.0.0.1:9/v1/traces"), ROWS) for code in (301, 302, 303, 307, 308)},
    "empty-partial-success": (partial(0), 0),
    "warning": (partial(0, "deprecated"), 0),
    "three-rejected": (partial(3, "too old"), 3),
    "more-rejected-than-sent": (partial(10**6), ROWS),
    "less-than-none-rejected": (partial(-5), 0),
    "success-without-body": (says(response(status="204 No Content")), 0),
}
DELIVERED_AT_ONCE = {"empty-partial-success", "warning", "three-rejected", "less-than-none-rejected"}


def _rows(count):
    return [
        OutboxItem(
            signal=Signal.TRACES,
            rank=Rank.SAMPLE,
            created_ns=time.time_ns(),
            items=1,
            payload=encoded_span(
                name=names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
                trace_id=bytes(range(16)),
                parent_span_id=b"\x01" * 8,
                span_id=number.to_bytes(8, "big"),
                start_ns=1,
                end_ns=2,
                attributes={},
                error=False,
            ),
        )
        for number in range(1, count + 1)
    ]


@pytest.fixture
def deliver(tmp_path):
    """Return a function that puts rows before a Collector, then one more, and returns the account once all is done."""
    database = Database(tmp_path)

    def put(count):
        database.submit(lambda connection: outbox.append(connection, _rows(count))).result()

    def run(endpoint, *, timeout_s=60.0):
        client = CollectorClient(CollectorSettings(endpoint=endpoint))
        delivery = Delivery(database, client.post, FAST, lambda _: None)
        put(ROWS)
        delivery.start()
        try:
            before = account(tmp_path, "traces")
            assert before.is_exact
            wait_until(lambda: _settled(tmp_path, ROWS), timeout_s=timeout_s, what="the first rows' end")
            put(1)
            delivery.notify()
            wait_until(lambda: _settled(tmp_path, ROWS + 1), timeout_s=timeout_s, what="the row behind them")
        finally:
            delivery.stop(5)
            client.close()
        return account(tmp_path, "traces")

    yield run
    assert database.close(10)


def _settled(directory, count):
    now = account(directory, "traces")
    assert now.is_exact
    return now.produced == count and now.pending == 0


@pytest.mark.parametrize("case", FAULTS)
def test_the_account_is_exact_and_the_queue_moves(deliver, case):
    fault, rejected = FAULTS[case]
    with RawCollector(fault) as collector:
        settled = deliver(collector.endpoint)
        requests = collector.requests
    assert (settled.delivered, settled.rejected, settled.dropped) == (ROWS + 1 - rejected, rejected, 0)
    is_final = rejected > 0 or case in DELIVERED_AT_ONCE or case == "success-without-body"
    assert requests == (2 if is_final else 3)


def test_a_collector_that_is_not_there_gets_everything_when_it_comes(deliver, tmp_path):
    (port,) = free_ports(1)
    with pytest.raises(TimeoutError):
        deliver(f"http://127.0.0.1:{port}", timeout_s=0.5)
    assert account(tmp_path, "traces").pending == ROWS


def _date(seconds):
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


# What 429 or 503 asks for, and the least and the most wait for it in s.
RETRY_AFTER = {
    "a-second": (lambda: "1", 1.0, 2.0),
    "blanks": (lambda: "  1 ", 1.0, 2.0),
    "a-date": (lambda: _date(2), 0.9, 3.2),
    "an-old-form-of-date": (
        lambda: (datetime.now(UTC) + timedelta(seconds=2)).strftime("%A, %d-%b-%y %H:%M:%S GMT"),
        0.9,
        3.2,
    ),
    "the-c-form-of-date": (
        lambda: (datetime.now(UTC) + timedelta(seconds=2)).strftime("%a %b %d %H:%M:%S %Y"),
        0.9,
        3.2,
    ),
    "none-at-all": (lambda: None, 0.0, 1.0),
    "zero": (lambda: "0", 0.0, 1.0),
    "negative": (lambda: "-5", 0.0, 1.0),
    "a-fraction": (lambda: "0.5", 0.0, 1.0),
    "a-past-date": (lambda: _date(-100), 0.0, 1.0),
    "no-such-date": (lambda: "Mon, 99 Foo 2026 99:99:99 GMT", 0.0, 1.0),
    "words": (lambda: "soon", 0.0, 1.0),
    "empty": (lambda: "", 0.0, 1.0),
    "foreign-digits": (lambda: "\u0663", 0.0, 1.0),
}


@pytest.mark.parametrize(("case", "code"), list(zip(RETRY_AFTER, cycle([503, 429]), strict=False)))
def test_the_wait_asked_for_is_kept_and_nonsense_is_none(deliver, case, code):
    value, least, most = RETRY_AFTER[case]
    times = []

    async def busy(reader, writer):
        times.append(time.monotonic())
        text = value()
        headers = {} if text is None else {"Retry-After": text}
        await says(response(status=f"{code} Busy", headers=headers))(reader, writer)

    async def success(reader, writer):
        times.append(time.monotonic())
        await says(response())(reader, writer)

    with RawCollector(busy, success) as collector:
        settled = deliver(collector.endpoint)
    assert (settled.delivered, settled.rejected, settled.dropped) == (ROWS + 1, 0, 0)
    # A busy machine makes nothing earlier.
    assert least <= times[1] - times[0] < most + 2.0


@pytest.fixture(scope="module")
def osb():
    with osb_in_thread(DeploymentSettings(metrics_delay_s=0.02)) as deployment:
        yield deployment


ALLOCATION = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION
MEMORY = names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB
LIMITS = {"cpu": "500m", "memory": "128Mi"}
QUEUE_BYTES = 128 * 1024
MAX_AGE_S = 3.0


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
    final = [Answer(status=code) for code in (400, 401, 404, 413, 500)]
    final.append(Answer(status=307, headers={"Location": "http://127.0.0.1:9/v1/traces"}))
    passing = [
        Answer(status=503, headers={"Retry-After": "1"}),
        Answer(status=429),
        Answer(status=503, headers={"Retry-After": _date(1)}),
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
