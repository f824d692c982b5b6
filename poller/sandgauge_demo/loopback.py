"""Loopback: ports for parts that must know each other's addresses before they run, and whether a part answers."""

import socket
from contextlib import ExitStack
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

HOST = "127.0.0.1"

_ANSWER_TIMEOUT_S = 1.0


def free_ports(count: int) -> list[int]:
    """Return distinct loopback ports that nobody listens on at this moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def is_ok(port: int, path: str) -> bool:
    """Tell whether a GET on a loopback port is answered with 200."""
    connection = HTTPConnection(HOST, port, timeout=_ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
