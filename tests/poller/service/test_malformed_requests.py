"""Requests that are no HTTP: refused, and never quoted in the log, since they may hold a token."""

import socket
from urllib.parse import urlsplit

import pytest

REQUESTS = {
    "control character": b"POST /v1/traces HTTP/1.1\r\nAuthorization: Bearer hunter2\x01\r\n\r\n",
    "long header": b"POST /v1/traces HTTP/1.1\r\nAuthorization: Bearer " + b"hunter2" * 2000 + b"\r\n\r\n",
    "path": b"POST /hunter2\x01 HTTP/1.1\r\n\r\n",
    "chunk": b"POST /v1/traces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\n",
}


@pytest.mark.parametrize("level", ["info", "debug"])
def test_malformed_requests_are_refused_and_not_quoted(make_poller, level):
    poller = make_poller(logs={"level": level})
    with poller:
        for url in (poller.endpoint, poller.status_url):
            for request in REQUESTS.values():
                assert b" 400 " in _answer(url, request)
    log = poller.log_file.read_text()
    assert 1 <= log.count("Error handling request") < 2 * len(REQUESTS), "said, and repeats are counted"
    assert "hunter2" not in log


def _answer(url, request):
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(request)
        return connection.recv(100)
