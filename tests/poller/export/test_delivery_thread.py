"""The thread of a delivery: when it sends, and how it ends."""

import socket
import time

import pytest

from sandgauge_poller.export.collector_client import CollectorClient, CollectorSettings
from sandgauge_poller.export.delivery import Delivery, DeliverySettings
from sandgauge_schemas.names import Signal
from support.otlp_sink import Answer as SinkAnswer
from support.outbox_rows import counts, point_item, put, span_item, span_items


@pytest.fixture
def make_running(database, otlp_sink):
    """Return a function that starts the thread against the sink, or another endpoint."""
    started = []

    def make(endpoint=None, **settings):
        client = CollectorClient(CollectorSettings(endpoint=endpoint or otlp_sink.endpoint))
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


def test_rows_of_an_earlier_process_go_out_at_the_start(database, otlp_sink, make_running):
    put(database, span_item())
    make_running()
    otlp_sink.wait_for(lambda seen: len(seen.spans()) == 1)


def test_new_rows_gather_into_one_request(database, otlp_sink, make_running):
    running = make_running()
    for number in range(1, 21):
        put(database, span_item(number))
        running.notify()
    otlp_sink.wait_for(lambda seen: len(seen.spans()) == 20)
    assert len(otlp_sink.requests()) <= 3


def test_an_outage_ends_by_itself(database, otlp_sink, make_running):
    otlp_sink.script(*[SinkAnswer(status=503)] * 3)
    put(database, span_item())
    make_running(initial_interval_s=0.05)
    otlp_sink.wait_for(lambda seen: len(seen.spans()) == 1)
    assert [request.status for request in otlp_sink.requests()] == [503, 503, 503, 200]
    assert len({request.body for request in otlp_sink.requests()}) == 1


def test_stop_sends_what_is_left(database, otlp_sink, make_running):
    running = make_running()
    put(database, *span_items(99), point_item(time_ns=time.time_ns()))
    assert running.stop(60)
    assert (len(otlp_sink.spans()), len(otlp_sink.points())) == (99, 2)
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
