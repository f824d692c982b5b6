"""Loopback: ports for parts that must know each other's addresses before they run, and whether a part answers."""

import os
import random
import socket
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

HOST = "127.0.0.1"

_ANSWER_TIMEOUT_S = 1.0
# Below the ports that systems give out by themselves, to a client that connects for example.
_RANGE = (12_000, 32_000)
# More than a process needs at one time, and few among the files that it may have open.
_MOST_RESERVED = 64
_random = random.SystemRandom()
_reserved: deque[int] = deque()


def free_ports(count: int) -> list[int]:
    """Return distinct loopback ports that nobody uses, and keep them from others that ask here, in any process.

    A socket that is bound and does not listen keeps each. Servers allow themselves to bind beside it (SO_REUSEADDR),
    also when they come back. It lasts as long as the process, or until it has asked for many more.
    """
    ports: list[int] = []
    while len(ports) < count:
        holder, port = socket.socket(), _random.randint(*_RANGE)
        with suppress(OSError):
            holder.bind((HOST, port))
            # Allowed only now: two that hold a port for somebody must not share it.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _reserved.append(holder.detach())
            ports.append(port)
        holder.close()
    while len(_reserved) > _MOST_RESERVED:
        os.close(_reserved.popleft())
    return ports


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
