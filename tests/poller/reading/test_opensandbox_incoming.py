"""One answer of a daemon, byte by byte."""

import gc
import itertools
import time
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.reading.opensandbox.incoming import Incoming
from sandgauge_schemas.names import ErrorType
from support.http_answers import ANSWERS, HEAD, MAX_BYTES

WHOLE = HEAD + b"Content-Length: 2\r\n\r\nok"
# Those that need no silence.
SAID = [b"".join(script) for script, _ in ANSWERS if all(isinstance(step, bytes) for step in script)]


def outcome(*parts: bytes) -> tuple[ErrorType | None, int | None, bytes]:
    incoming = Incoming(MAX_BYTES)
    if not any(incoming.take(part) for part in parts):
        incoming.end(in_order=True)
    assert incoming.is_settled
    return incoming.failure, incoming.status, incoming.body


@given(st.sampled_from(SAID), st.lists(st.integers(0, 300), max_size=5))
def test_it_does_not_matter_how_the_bytes_come(answer, cuts):
    places = sorted({0, *(cut for cut in cuts if cut < len(answer)), len(answer)})
    assert outcome(*(answer[a:b] for a, b in itertools.pairwise(places))) == outcome(answer)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_whatever_comes_is_an_outcome_and_bounded(noise):
    for begin in (b"", HEAD, HEAD + b"\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"):
        _, _, body = outcome(begin, *noise)
        assert len(body) <= MAX_BYTES


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (WHOLE, True),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno", True),
        (b"HTTP/1.1 102 Wait\r\n\r\n" + WHOLE, True),
        (HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", False),
        # what stands behind the answer might be taken for the next one
        (WHOLE + WHOLE, False),
        (WHOLE + b"{}", False),
        (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", False),
        (HEAD + b"Content-Length: 2000\r\n\r\n", False),
        (HEAD + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", False),
    ],
)
def test_a_connection_is_kept_only_where_the_next_answer_would_be_the_next(answer, is_kept):
    incoming = Incoming(MAX_BYTES)
    assert incoming.take(answer)
    assert incoming.leaves_connection_open is is_kept


@pytest.mark.parametrize(
    ("head", "endless"),
    [
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (HEAD, b"X-More: y\r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"extension"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"Trailer: y\r\n"),
        (HEAD + b"X-Long: ", b"y"),
    ],
)
def test_what_never_gets_to_its_end_is_given_up(head, endless):
    incoming = Incoming(MAX_BYTES)
    incoming.take(head)
    pieces = 0
    while not incoming.take(endless * 100):
        pieces += 1
        assert pieces * len(endless) * 100 < 64 * 1024
    assert incoming.failure is ErrorType.UNRECOGNIZED_FORMAT
    assert incoming.body == b""


@pytest.mark.parametrize(("in_order", "error_type"), [(True, None), (False, ErrorType.CONNECTION)])
def test_an_answer_without_a_length_ends_with_its_connection_if_that_ends_in_order(in_order, error_type):
    incoming = Incoming(MAX_BYTES)
    assert not incoming.take(HEAD + b"\r\nok")
    incoming.end(in_order=in_order)
    assert incoming.failure is error_type


def test_the_bound_is_of_the_body():
    assert outcome(HEAD + b"\r\n" + b"x" * MAX_BYTES) == (None, 200, b"x" * MAX_BYTES)
    assert outcome(HEAD + b"\r\n" + b"x" * (MAX_BYTES + 1)) == (ErrorType.BODY_TOO_LARGE, 200, b"")


@pytest.mark.parametrize("coding", [b"gzip", b"gzip, chunked", b"chunked, gzip", b"Deflate"])
def test_a_coding_of_the_transfer_beside_chunks_is_not_undone(coding):
    answer = HEAD + b"Transfer-Encoding: " + coding + b"\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    assert outcome(answer) == (ErrorType.UNRECOGNIZED_FORMAT, 200, b"")


def test_bytes_behind_an_answer_that_is_settled_spoil_its_connection():
    incoming = Incoming(MAX_BYTES)
    assert incoming.take(WHOLE)
    assert incoming.take(b"{}")
    assert not incoming.leaves_connection_open
    assert (incoming.failure, incoming.body) == (None, b"ok")


class Watched(Incoming):
    """One that can be seen to go: it has no slots."""


@pytest.mark.parametrize("answer", [WHOLE, HEAD + b"Content-Length: 2000\r\n\r\n", b"no HTTP", HEAD])
def test_an_answer_goes_without_the_garbage_collector(answer):
    gc.disable()
    try:
        incoming = Watched(MAX_BYTES)
        alive = weakref.ref(incoming)
        incoming.take(answer)
        incoming.settle(ErrorType.TIMEOUT)
        del incoming
        assert alive() is None
    finally:
        gc.enable()


def test_chunks_of_a_byte_each_cost_no_more_the_more_there_are():
    def cpu_s(chunks: int) -> float:
        incoming = Incoming(2**20)
        answer = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * chunks + b"0\r\n\r\n"
        began_s = time.process_time()
        assert incoming.take(answer)
        assert incoming.body == b"x" * chunks
        return time.process_time() - began_s

    few, many = min(cpu_s(20_000) for _ in range(3)), min(cpu_s(200_000) for _ in range(3))
    assert many < 30 * few  # ten times as much, not a hundred times
