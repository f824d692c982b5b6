"""How servers are reached by aiohttp: without a limit on connections, by names that nobody's end waits for."""

import socket
import ssl

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from sandgauge_poller.reading.resolver import Resolver


def tcp_connector(tls: ssl.SSLContext | None, *, keepalive_s: float) -> aiohttp.TCPConnector:
    """Return a connector that keeps idle connections for so many seconds; None means the system's trust.

    A limit on connections would hold reads back without telling.
    """
    return aiohttp.TCPConnector(limit=0, ssl=tls or True, keepalive_timeout=keepalive_s, resolver=_Names())


class _Names(AbstractResolver):
    """Looks up as direct reads do: the library would take the event loop's threads, for which its end waits."""

    def __init__(self) -> None:
        self._resolver = Resolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host; raises OSError."""
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=found_family,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found_family, _, protocol, _, address in await self._resolver.resolve(host, port)
            if family in (socket.AF_UNSPEC, found_family)
        ]

    async def close(self) -> None:
        """Do nothing: lookups end by themselves."""
