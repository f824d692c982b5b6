"""Delivery: rows leave the outbox only when their request is answered for good, and nothing is counted twice."""

import socket
import time

import pytest

from sandgauge_poller.export import delivery as delivery_module
from sandgauge_poller.export import outbox
from sandgauge_poller.export.answer import Answer
from sandgauge_poller.export.collector_client import CollectorClient, CollectorSettings, NoAnswerError
from sandgauge_poller.export.delivery import Delivery, DeliverySettings
from sandgauge_poller.export.messages import MetricPoint, encode_points, export_request
from sandgauge_poller.export.outbox import OutboxItem, Rank
from sandgauge_schemas import names
from sandgauge_schemas.names import ErrorType, ExportOutcome, ResourceSource, Signal
from sandgauge_schemas.records import JoinKeys, ReadingStatus, SampleRecord
from support.otlp_proto import encoded_span
from support.otlp_sink import Answer as SinkAnswer
from support.otlp_sink import OtlpSink

NOW_NS = 1_767_225_600_000_000_000
OK = Answer(status=200, headers={}, body=b"")
BUSY = Answer(status=503, headers={}, body=b"")
KEYS = JoinKeys(run_id="run-1", sandbox_id="sb-1", provider="opensandbox")
POINT_ATTRIBUTES = {**KEYS.to_attributes(), names.NEMO_GYM_SANDBOX_SAMPLE_SCOPE: names.SampleScope.NODE}


def span_item(number=1):
    status = ReadingStatus(source=ResourceSource.OPENSANDBOX_EXECD, error_type=ErrorType.TIMEOUT)
    payload = encoded_span(
        name=names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
        trace_id=bytes(range(16)),
        parent_span_id=b"\x01" * 8,
        span_id=number.to_bytes(8, "big"),
        start_ns=NOW_NS,
        end_ns=NOW_NS + 1,
        attributes=SampleRecord(keys=KEYS, status=status).to_attributes(),
        error=True,
    )
    return OutboxItem(signal=Signal.TRACES, rank=Rank.SAMPLE, created_ns=NOW_NS, items=1, payload=payload)


def point_item(value=1.0, time_ns=NOW_NS):
    metrics = (names.METRIC_GYM_SANDBOX_CPU_COUNT, names.METRIC_GYM_SANDBOX_MEMORY_USED_MIB)
    points = [
        MetricPoint(metric=metric, value=value, time_ns=time_ns, attributes=POINT_ATTRIBUTES) for metric in metrics
    ]
    payload = encode_points(points)
    return OutboxItem(signal=Signal.METRICS, rank=Rank.POINT, created_ns=time_ns, items=2, payload=payload)


class Receiver:
    """Stands for the connection to the Collector: keeps what is posted and answers from a script, then with success."""

    def __init__(self):
        self.posts = []
        self.script = {signal: [] for signal in Signal}

    def __call__(self, signal, message, timeout_s):
        self.posts.append((signal, message, timeout_s))
        answer = self.script[signal].pop(0) if self.script[signal] else OK
        if isinstance(answer, Exception):
            raise answer
        return answer

    def messages(self, signal):
        return [message for posted, message, _ in self.posts if posted is signal]


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def monotonic(self):
        return self.now_s

    def now_ns(self):
        return NOW_NS + int((self.now_s - 100.0) * 1e9)


@pytest.fixture
def receiver():
    return Receiver()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def expired():
    return []


@pytest.fixture
def delivery(database, receiver, clock, expired):
    return Delivery(
        database, receiver, DeliverySettings(), expired.append, monotonic=clock.monotonic, now_ns=clock.now_ns
    )


@pytest.fixture
def sink():
    with OtlpSink() as opened:
        yield opened


@pytest.fixture
def make_running(database, sink):
    """Return a function that starts the thread against the sink, or another endpoint."""
    started = []

    def make(endpoint=None, **settings):
        client = CollectorClient(CollectorSettings(endpoint=endpoint or sink.endpoint))
        running = Delivery(database, client.post, DeliverySettings(**settings), lambda _: None)
        running.start()
        started.append((running, client))
        return running

    yield make
    for running, client in started:
        running.stop(5)
        client.close()


@pytest.fixture
def silent():
    """Return a listener whose connections nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def endpoint_of(listener):
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def put(database, *items):
    database.submit(lambda connection: outbox.append(connection, items)).result(10)


def counts(database, signal):
    """Return produced, delivered, rejected, dropped and pending, which must add up."""
    account = database.read(outbox.accounts)[signal]
    produced, delivered, rejected, dropped = (account.outcomes[outcome] for outcome in ExportOutcome)
    assert produced == delivered + rejected + dropped + account.pending
    return produced, delivered, rejected, dropped, account.pending


def test_what_is_delivered_leaves_the_outbox(database, delivery, receiver):
    put(database, span_item(1), point_item(), span_item(2))
    assert not delivery.deliver_due()
    assert receiver.messages(Signal.TRACES) == [export_request([span_item(1).payload, span_item(2).payload])]
    assert receiver.messages(Signal.METRICS) == [export_request([point_item().payload])]
    assert counts(database, Signal.TRACES) == (2, 2, 0, 0, 0)
    assert counts(database, Signal.METRICS) == (2, 2, 0, 0, 0)
    assert not delivery.deliver_due()
    assert len(receiver.posts) == 2, "an empty outbox is not sent"


@pytest.mark.parametrize("fault", [BUSY, NoAnswerError("timeout"), Answer(status=200, headers={}, body=b"<html>")])
def test_a_fault_keeps_the_rows_and_the_same_bytes_come_later(database, delivery, receiver, clock, fault):
    put(database, span_item(1), span_item(2))
    receiver.script[Signal.TRACES] = [fault, fault]
    delivery.deliver_due()
    delivery.deliver_due()
    assert len(receiver.posts) == 1, "the back-off has not passed"
    clock.now_s += 1.5
    delivery.deliver_due()
    clock.now_s += 2.0
    delivery.deliver_due()
    first, second, third = receiver.messages(Signal.TRACES)
    assert first == second == third
    assert counts(database, Signal.TRACES) == (2, 2, 0, 0, 0)


def test_the_wait_that_was_asked_for_is_kept(database, delivery, receiver, clock):
    put(database, span_item())
    receiver.script[Signal.TRACES] = [Answer(status=503, headers={"retry-after": "5"}, body=b"")]
    delivery.deliver_due()
    for now_s, posts in ((104.9, 1), (105.0, 2)):
        clock.now_s = now_s
        delivery.deliver_due()
        assert len(receiver.posts) == posts


def test_a_date_to_wait_for_is_counted_from_the_wall_clock(database, delivery, receiver, clock):
    put(database, span_item())
    headers = {"retry-after": "Thu, 01 Jan 2026 00:00:09 GMT"}
    receiver.script[Signal.TRACES] = [Answer(status=429, headers=headers, body=b"")]
    delivery.deliver_due()
    for now_s, posts in ((108.9, 1), (109.0, 2)):
        clock.now_s = now_s
        delivery.deliver_due()
        assert len(receiver.posts) == posts


@pytest.mark.parametrize(("down", "up"), [(Signal.TRACES, Signal.METRICS), (Signal.METRICS, Signal.TRACES)])
def test_an_outage_of_one_signal_does_not_hold_up_the_other(database, delivery, receiver, down, up):
    receiver.script[down] = [BUSY] * 10
    for number in range(1, 4):
        put(database, span_item(number), point_item(time_ns=NOW_NS + number))
        delivery.deliver_due()
    assert (len(receiver.messages(down)), len(receiver.messages(up))) == (1, 3)
    assert counts(database, up)[4] == 0


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 307])
def test_what_is_refused_for_good_is_counted_and_not_sent_again(database, delivery, receiver, status):
    put(database, span_item(1), span_item(2))
    receiver.script[Signal.TRACES] = [Answer(status=status, headers={}, body=b"")]
    delivery.deliver_due()
    put(database, span_item(3))
    delivery.deliver_due()
    assert len(receiver.posts) == 2
    assert counts(database, Signal.TRACES) == (3, 1, 2, 0, 0)


def test_what_a_partial_success_refuses_is_counted_and_not_sent_again(database, delivery, receiver):
    put(database, *(span_item(number) for number in range(1, 6)))
    body = b'{"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too many attributes"}}'
    receiver.script[Signal.TRACES] = [Answer(status=200, headers={"content-type": "application/json"}, body=body)]
    delivery.deliver_due()
    delivery.deliver_due()
    assert len(receiver.posts) == 1
    assert counts(database, Signal.TRACES) == (5, 2, 3, 0, 0)


def test_points_too_old_are_left_out_and_counted(database, delivery, receiver, clock, expired):
    age_ns = 900 * 10**9
    put(database, point_item(1.0, NOW_NS - age_ns - 1), point_item(2.0, NOW_NS - age_ns), span_item())
    receiver.script[Signal.METRICS] = [BUSY]
    delivery.deliver_due()
    assert receiver.messages(Signal.METRICS) == [export_request([point_item(2.0, NOW_NS - age_ns).payload])]
    clock.now_s += 1000.0
    put(database, span_item(2))
    delivery.deliver_due()
    assert len(receiver.messages(Signal.METRICS)) == 1, "during the outage the other point grew too old as well"
    assert expired == [2, 2]
    assert counts(database, Signal.METRICS) == (4, 0, 0, 4, 0)
    assert counts(database, Signal.TRACES) == (2, 2, 0, 0, 0), "spans do not grow too old"


def test_a_backlog_goes_out_in_bounded_requests_and_signals_take_turns(database, delivery, receiver, monkeypatch):
    monkeypatch.setattr(delivery_module, "MAX_REQUEST_ROWS", 2)
    put(database, *(span_item(number) for number in range(1, 6)), point_item(1.0), point_item(2.0), point_item(3.0))
    rounds = 1
    while delivery.deliver_due():
        rounds += 1
    assert rounds == 3
    assert [signal for signal, _, _ in receiver.posts] == [
        Signal.TRACES, Signal.METRICS, Signal.TRACES, Signal.METRICS, Signal.TRACES,
    ]  # fmt: skip
    assert counts(database, Signal.TRACES)[1] == 5


def test_rows_dropped_while_they_are_sent_are_counted_once(database, clock):
    def post(signal, message, timeout_s):
        database.submit(lambda connection: outbox.enforce(connection, 0)).result(10)
        return OK

    delivery = Delivery(
        database, post, DeliverySettings(), lambda _: None, monotonic=clock.monotonic, now_ns=clock.now_ns
    )
    put(database, span_item(1), span_item(2))
    delivery.deliver_due()
    assert counts(database, Signal.TRACES) == (2, 0, 0, 2, 0)


def test_an_unforeseen_fault_postpones_and_says_so(database, delivery, receiver, clock, caplog):
    put(database, span_item())
    receiver.script[Signal.TRACES] = [RuntimeError("on purpose")]
    delivery.deliver_due()
    assert "RuntimeError: on purpose" in caplog.text
    clock.now_s += 2.0
    delivery.deliver_due()
    assert counts(database, Signal.TRACES) == (1, 1, 0, 0, 0)


def test_a_store_that_cannot_count_the_delivery_is_no_reason_to_send_without_pause(database, delivery, receiver):
    put(database, span_item())
    trigger = "CREATE TRIGGER broken BEFORE DELETE ON outbox BEGIN SELECT raise(FAIL, 'disk I/O error'); END"
    database.submit(lambda connection: connection.execute(trigger) and None).result(10)
    for _ in range(5):
        delivery.deliver_due()
    assert len(receiver.posts) == 1
    assert counts(database, Signal.TRACES) == (1, 0, 0, 0, 1)


def test_answers_of_a_real_receiver_in_turn(database, sink, clock):
    json = {"Content-Type": "application/json"}
    sink.script(
        SinkAnswer(headers=json, body=b"{}"),
        SinkAnswer(headers=json, body=b'{"partialSuccess": {}}'),
        SinkAnswer(headers=json, body=b'{"partialSuccess":{"rejectedSpans":"0","errorMessage":"soon deprecated"}}'),
        SinkAnswer(headers=json, body=b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too many"}}'),
        SinkAnswer(status=202),
        SinkAnswer(headers={"Content-Type": "text/html"}, body=b"<html>ok</html>"),
    )
    client = CollectorClient(CollectorSettings(endpoint=sink.endpoint))
    delivery = Delivery(
        database, client.post, DeliverySettings(), lambda _: None, monotonic=clock.monotonic, now_ns=clock.now_ns
    )
    for number in range(1, 7):
        put(database, span_item(number))
        delivery.deliver_due()
    assert counts(database, Signal.TRACES) == (6, 4, 1, 0, 1)
    clock.now_s += 2.0
    delivery.deliver_due()
    client.close()
    assert counts(database, Signal.TRACES) == (6, 5, 1, 0, 0)
    assert sink.violations == []
    sent = [request.body for request in sink.requests()]
    assert len(sent) == 7
    assert sent[5] == sent[6]


def test_rows_of_an_earlier_process_go_out_at_the_start(database, sink, make_running):
    put(database, span_item())
    make_running()
    sink.wait_for(lambda seen: len(seen.spans()) == 1)


def test_new_rows_gather_into_one_request(database, sink, make_running):
    running = make_running()
    for number in range(1, 21):
        put(database, span_item(number))
        running.notify()
    sink.wait_for(lambda seen: len(seen.spans()) == 20)
    assert len(sink.requests()) <= 3
    assert sink.violations == []


def test_an_outage_ends_by_itself(database, sink, make_running):
    sink.script(*[SinkAnswer(status=503)] * 3)
    put(database, span_item())
    make_running(initial_interval_s=0.05)
    sink.wait_for(lambda seen: len(seen.spans()) == 1)
    assert [request.status for request in sink.requests()] == [503, 503, 503, 200]
    assert len({request.body for request in sink.requests()}) == 1


def test_the_thread_sleeps_until_rows_come_or_an_attempt_is_due(database, delivery, receiver, clock):
    assert delivery._seconds_until_due() is None
    put(database, span_item())
    receiver.script[Signal.TRACES] = [Answer(status=503, headers={"retry-after": "5"}, body=b"")]
    delivery.deliver_due()
    clock.now_s += 1.0
    assert delivery._seconds_until_due() == pytest.approx(4.0)
    clock.now_s += 5.0
    assert delivery._seconds_until_due() == 0.0
    delivery.deliver_due()
    assert delivery._seconds_until_due() is None


def test_stop_sends_what_is_left(database, sink, make_running):
    running = make_running()
    put(database, *(span_item(number) for number in range(1, 100)), point_item(time_ns=time.time_ns()))
    assert running.stop(60)
    assert (len(sink.spans()), len(sink.points())) == (99, 2)
    assert counts(database, Signal.TRACES)[4] == 0


def test_stop_keeps_its_bound_while_the_receiver_is_silent(database, make_running, silent):
    put(database, span_item(), point_item())
    running = make_running(endpoint=endpoint_of(silent), timeout_s=0.2)
    begin = time.monotonic()
    assert running.stop(5.0)
    assert time.monotonic() - begin < 5.0
    assert counts(database, Signal.TRACES) == (1, 0, 0, 0, 1)


def test_stop_does_not_wait_for_a_request_that_outlasts_it(database, make_running, silent):
    put(database, span_item())
    running = make_running(endpoint=endpoint_of(silent), timeout_s=20.0)
    connection, _ = silent.accept()
    begin = time.monotonic()
    assert not running.stop(0.1)
    assert time.monotonic() - begin < 10.0
    connection.close()
    assert running.stop(60)
    assert counts(database, Signal.TRACES) == (1, 0, 0, 0, 1)
