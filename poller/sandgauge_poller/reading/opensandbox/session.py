"""How a control plane is asked."""

from collections.abc import Mapping

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.connector import tcp_connector
from sandgauge_poller.reading.exchange import BoundedSession
from sandgauge_poller.reading.tls import client_context

OWN_HEADERS = {"OpenSandbox-Access-Renew": "skip"}
"""Where access renews a sandbox's life, polling would keep it alive for ever. Gateways heed this as the server does."""


def open_session(
    tls: ClientTls,
    *,
    clock: Clock,
    keepalive_s: float,
    headers: Mapping[str, str],
) -> BoundedSession:
    """Return a session with one control plane; its headers go there alone."""
    return BoundedSession(
        tcp_connector(client_context(tls), keepalive_s=keepalive_s),
        clock=clock,
        headers={**OWN_HEADERS, **headers},
    )
