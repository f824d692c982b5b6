"""SIGTERM: what can be sent is sent, within five seconds, whoever hangs; a second signal ends it at once."""

import os
import signal
import socket
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager

import pytest

from sandgauge_demo.deployment import Route
from sandgauge_poller.ingest.spans import MOST_LIFECYCLE_SPANS
from sandgauge_poller.tracking.database import STORE_FILE
from sandgauge_schemas import names
from support.delivered import ids_in
from support.feed import feed, start_span
from support.forged_spans import forged_batches
from support.fuzzed_bodies import PROTOBUF, TAKEN, Fuzzed, hurting_bodies
from support.running_poller import RunningPoller
from support.waiting import wait_until

pytestmark = pytest.mark.load  # for the clock that they look at

ALLOCATION = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION
SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
WITHIN_S = 5.0
BODIES = 4
"""More than can be taken in while it stops."""


@contextmanager
def silent():
    """Yield the address of someone who takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def away():
    """Yield an address that refuses connections."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{holder.getsockname()[1]}"


@contextmanager
def half_a_request(endpoint, path):
    """Keep a request open whose body never comes to its end."""
    host, port = endpoint.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as sender:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
        sender.sendall(head.encode())
        yield


@contextmanager
def sent(endpoint, fuzzed):
    """Send a whole request and yield its connection."""
    host, port = endpoint.removeprefix("http://").split(":")
    encoding = "Content-Encoding: gzip\r\n" if fuzzed.packed else ""
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {fuzzed.content_type}\r\n{encoding}"
    with socket.create_connection((host, int(port)), timeout=60) as sender:
        sender.sendall(f"{head}Content-Length: {len(fuzzed.body)}\r\n\r\n".encode() + fuzzed.body)
        yield sender


def answer(sender):
    """Return how an answer begins; nothing where the connection was ended without one."""
    try:
        return sender.recv(4096)
    except ConnectionResetError:
        return b""


def stop(poller):
    """Return the exit code and how long it took, in s."""
    began = time.monotonic()
    return poller.stop(), time.monotonic() - began


def begin(poller, osb, count=20):
    """Start a poller whose sandboxes are read, one of them without an answer."""
    sandbox_ids = [osb.create(limits={"cpu": "1"}) for _ in range(count)]
    osb.stop_execd(sandbox_ids[0])
    poller.start()
    feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in sandbox_ids))
    osb.wait_for(2 * count, Route.EXECD)
    return sandbox_ids


def test_all_that_was_read_is_sent(osb, make_poller, otlp_sink):
    poller = make_poller()
    sandbox_ids = begin(poller, osb)
    code, took_s = stop(poller)
    assert code == 0
    print(f"{took_s:.2f} s")
    assert took_s < WITHIN_S
    assert ids_in(otlp_sink, ALLOCATION) == set(sandbox_ids)
    assert ids_in(otlp_sink, SAMPLE) >= set(sandbox_ids[1:])


@pytest.mark.parametrize("collector", [away, silent])
def test_nobody_holds_it_up(osb, make_poller, collector):
    with ExitStack() as stack:
        poller = make_poller(export={"endpoint": stack.enter_context(collector())})
        begin(poller, osb)
        for route in (Route.INSPECT, Route.GET, Route.ENDPOINT):
            osb.fault(route, hang=True)
        late = osb.create()
        feed(poller.endpoint, start_span(late))
        osb.wait_for(1, Route.INSPECT, late)
        stack.enter_context(half_a_request(poller.endpoint, "/v1/traces"))
        stack.enter_context(half_a_request(poller.status_url, "/healthz"))
        code, took_s = stop(poller)
    assert code == 0
    print(f"{collector.__name__}: {took_s:.2f} s")
    assert took_s < WITHIN_S


def test_what_could_not_be_sent_is_sent_after_the_next_start(osb, make_poller, otlp_sink):
    with silent() as endpoint:
        poller = make_poller(export={"endpoint": endpoint})
        sandbox_ids = begin(poller, osb)
        assert stop(poller)[0] == 0
    for sandbox_id in sandbox_ids:
        osb.delete(sandbox_id)
    stopped_ns = time.time_ns()
    again = make_poller()
    with again:
        otlp_sink.wait_for(lambda sink: ids_in(sink, ALLOCATION) == set(sandbox_ids))
    assert any(span.end_ns < stopped_ns for span in otlp_sink.spans(SAMPLE))


def test_a_body_that_is_being_understood_holds_nothing_up(tmp_path):
    poller = RunningPoller(tmp_path, {"tracking": {"max_sandboxes": 50_000}})
    poller.start()
    objects = [body for body in hurting_bodies() if body.kind == "as many objects as may be"]
    batches = forged_batches(BODIES * MOST_LIFECYCLE_SPANS, MOST_LIFECYCLE_SPANS)
    spans = [Fuzzed("spans", PROTOBUF, body, TAKEN) for body in batches]
    with ExitStack() as stack:
        senders = [stack.enter_context(sent(poller.endpoint, body)) for body in [*objects, *spans]]
        code, took_s = stop(poller)
        answers = [answer(sender) for sender in senders]
    assert code == 0
    print(f"{took_s:.2f} s")
    assert took_s < WITHIN_S
    assert answers[-1] == b"", "there is no answer to what is not stored: its sender sends it again"
    acknowledged = sum(one.startswith(b"HTTP/1.1 200") for one in answers[len(objects) :])
    with closing(sqlite3.connect(tmp_path / "state" / STORE_FILE)) as store:
        assert store.execute("SELECT count(*) FROM event").fetchone()[0] >= acknowledged * MOST_LIFECYCLE_SPANS
    assert poller.complaints() == []


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(osb, make_poller, second):
    with silent() as endpoint:
        poller = make_poller(export={"endpoint": endpoint})
        begin(poller, osb, count=2)
        os.kill(poller.pid, signal.SIGTERM)
        wait_until(
            lambda: "stopping" in [entry["message"] for entry in poller.log()], timeout_s=60, what="a stop begun"
        )
        os.kill(poller.pid, second)
        code, took_s = stop(poller)
    assert code == 1
    assert took_s < 2.0
