"""How an OpenSandbox deployment is asked: a control plane, or the daemons of its sandboxes."""

from collections.abc import Callable, Mapping

import aiohttp

from sandgauge_poller.config import ClientTls
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import BoundedSession
from sandgauge_poller.reading.tls import client_context

# Where access renews a sandbox's life, polling would keep it alive for ever. Gateways heed this as the server does.
_HEADERS = {"OpenSandbox-Access-Renew": "skip"}


def open_session(
    tls: ClientTls,
    *,
    clock: Clock,
    keepalive_s: float,
    headers: Mapping[str, str],
    connector: Callable[..., aiohttp.TCPConnector] = aiohttp.TCPConnector,
) -> BoundedSession:
    """Return a session without a limit on connections, which would hold reads back without telling."""
    return BoundedSession(
        connector(limit=0, ssl=client_context(tls), keepalive_timeout=keepalive_s),
        clock=clock,
        headers={**_HEADERS, **headers},
    )
