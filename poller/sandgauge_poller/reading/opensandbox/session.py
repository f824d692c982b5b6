"""How a control plane is asked."""

from collections.abc import Mapping

import aiohttp

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import Clock
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
    """Return a session without a limit on connections, which would hold reads back without telling."""
    return BoundedSession(
        aiohttp.TCPConnector(limit=0, ssl=client_context(tls), keepalive_timeout=keepalive_s),
        clock=clock,
        headers={**OWN_HEADERS, **headers},
    )
