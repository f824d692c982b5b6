"""The ports that a poller listens on: free, or served by a poller already."""

import errno
import os
import socket
from collections.abc import Iterator

from sandgauge_poller.config import Config, ListenAddress
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.doctor.running_poller import RunningPoller


def examine(config: Config, running: RunningPoller | None) -> Iterator[Finding]:
    """Yield what was found at both ports."""
    yield _examine("ingest.endpoint", config.ingest.endpoint, running)
    yield _examine("status.endpoint", config.status.endpoint, running)
    if running is not None and running.missing:
        cure = "wait a moment; if it stays so, read its log"
        yield warned("running poller", f"not ready: {' and '.join(running.missing)}", cure)


def _examine(key: str, endpoint: ListenAddress, running: RunningPoller | None) -> Finding:
    reason = _why_not(endpoint)
    if reason is None:
        return passed(key, f"{endpoint} is free" if endpoint.port else f"{endpoint} takes any free port")
    if reason != os.strerror(errno.EADDRINUSE):
        return failed(key, f"{endpoint} cannot be listened on: {reason}", "name an address of this machine")
    if running is not None:
        return passed(key, f"{endpoint} is served by a running poller")
    return failed(key, f"{endpoint} is taken by another program", "stop what listens there, or name another address")


def _why_not(endpoint: ListenAddress) -> str | None:
    """Return why nobody can listen there now, or None. It is bound for a moment, and not listened on."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
            probe.bind(address)
    except OSError as error:
        return error.strerror or type(error).__name__
    return None
