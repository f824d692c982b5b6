"""Ports that parts are told before they run."""

import socket
import subprocess
import sys

from sandgauge_demo.loopback import HOST, free_ports

ASK = """
import sys
from sandgauge_demo import loopback
loopback._RANGE = (int(sys.argv[1]),) * 2
print(*loopback.free_ports(1))
"""


def is_given_to_another(port, patience_s=3):
    """Tell whether another process, which wants this port alone, gets it; it asks until then."""
    try:
        ended = subprocess.run(
            (sys.executable, "-c", ASK, str(port)), timeout=patience_s, check=True, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.stdout.split() == [str(port)]


def test_no_two_askers_get_the_same_port():
    assert not is_given_to_another(free_ports(1)[0])


def test_what_is_asked_for_in_one_go_is_distinct():
    assert len(set(free_ports(20))) == 20


def test_who_asked_can_listen_there_leave_and_come_back():
    (port,) = free_ports(1)
    for _ in range(2):
        with (
            socket.create_server((HOST, port)) as server,
            socket.create_connection((HOST, port)) as client,
            server.accept()[0] as taken,
        ):
            client.sendall(b"here")
            assert taken.recv(4) == b"here"


def test_a_port_where_somebody_listens_is_not_given():
    with socket.create_server((HOST, 0)) as server:
        assert not is_given_to_another(server.getsockname()[1])


def test_old_ones_are_given_up_so_that_files_do_not_run_out():
    first = free_ports(1)[0]
    assert not is_given_to_another(first)
    free_ports(64)
    assert is_given_to_another(first, patience_s=60)
