"""Delivery: rows leave the outbox only when their request is answered for good, and nothing is counted twice."""

import pytest

from sandgauge_poller.export import delivery as delivery_module
from sandgauge_poller.export import outbox
from sandgauge_poller.export.answer import Answer
from sandgauge_poller.export.collector_client import CollectorClient, CollectorSettings, NoAnswerError
from sandgauge_poller.export.delivery import Delivery, DeliverySettings
from sandgauge_poller.export.messages import export_request
from sandgauge_schemas.names import Signal
from support.otlp_sink import Answer as SinkAnswer
from support.outbox_rows import NOW_NS, counts, point_item, put, span_item

OK = Answer(status=200, headers={}, body=b"")
BUSY = Answer(status=503, headers={}, body=b"")


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
        database.submit(lambda connection: outbox.enforce(connection, 0)).result(60)
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
    database.submit(lambda connection: connection.execute(trigger) and None).result(60)
    for _ in range(5):
        delivery.deliver_due()
    assert len(receiver.posts) == 1
    assert counts(database, Signal.TRACES) == (1, 0, 0, 0, 1)


def test_answers_of_a_real_receiver_in_turn(database, otlp_sink, clock):
    json = {"Content-Type": "application/json"}
    otlp_sink.script(
        SinkAnswer(headers=json, body=b"{}"),
        SinkAnswer(headers=json, body=b'{"partialSuccess": {}}'),
        SinkAnswer(headers=json, body=b'{"partialSuccess":{"rejectedSpans":"0","errorMessage":"soon deprecated"}}'),
        SinkAnswer(headers=json, body=b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too many"}}'),
        SinkAnswer(status=202),
        SinkAnswer(headers={"Content-Type": "text/html"}, body=b"<html>ok</html>"),
    )
    client = CollectorClient(CollectorSettings(endpoint=otlp_sink.endpoint))
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
    sent = [request.body for request in otlp_sink.requests()]
    assert len(sent) == 7
    assert sent[5] == sent[6]


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
