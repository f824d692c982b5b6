"""A Collector that answers anything, or nothing: every record is accounted for, and what can go on goes on."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import cycle

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sandgauge_demo.loopback import free_ports
from sandgauge_poller.export.collector_client import CollectorClient, CollectorSettings
from sandgauge_poller.export.delivery import Delivery, DeliverySettings
from support.hostile_daemons import response, says, says_for_ever, says_nothing
from support.outbox_account import account
from support.outbox_rows import put, span_item, span_items
from support.raw_collector import RawCollector
from support.waiting import wait_until

pytestmark = pytest.mark.load

ROWS = 4
FAST = DeliverySettings(timeout_s=3.0, initial_interval_s=0.05, max_interval_s=0.2)
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
    "slow": (says(6.0, response()), 0),
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


@pytest.fixture
def deliver(database):
    """Return a function that puts rows before a Collector, then one more, and returns the account once all is done."""
    folder = database.path.parent

    def run(endpoint, *, timeout_s=60.0):
        client = CollectorClient(CollectorSettings(endpoint=endpoint))
        delivery = Delivery(database, client.post, FAST, lambda _: None)
        put(database, *span_items(ROWS))
        delivery.start()
        try:
            before = account(folder, "traces")
            assert before.is_exact
            wait_until(lambda: _settled(folder, ROWS), timeout_s=timeout_s, what="the first rows' end")
            put(database, span_item())
            delivery.notify()
            wait_until(lambda: _settled(folder, ROWS + 1), timeout_s=timeout_s, what="the row behind them")
        finally:
            delivery.stop(5)
            client.close()
        return account(folder, "traces")

    return run


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


def test_a_collector_that_is_not_there_gets_everything_when_it_comes(deliver, database):
    (port,) = free_ports(1)
    with pytest.raises(TimeoutError):
        deliver(f"http://127.0.0.1:{port}", timeout_s=0.5)
    assert account(database.path.parent, "traces").pending == ROWS


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
