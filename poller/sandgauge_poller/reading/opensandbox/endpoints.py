"""Where a sandbox's daemon is reached: a control plane's answer, read strictly, and which hosts it may name."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sandgauge_poller.config.urls import DEFAULT_PORTS, is_loopback
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.opensandbox.connection import Origin

EXECD_PORT = 44772

_LARGEST_PORT = 65535
_MAX_ENDPOINT_CHARACTERS = 2048
_MAX_HEADERS = 16
_MAX_HEADER_CHARACTERS = 4096
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_ENDPOINT = re.compile(
    rf"(?:\[(?P<six>[0-9A-Fa-f:.]{{2,45}})\]|(?P<host>{_LABEL}(?:\.{_LABEL}){{0,127}}))"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)*)/?"
)
_NUMBER_LABEL = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_HEADER_NAME = re.compile(r"(?:opensandbox|x)-[a-z0-9-]{1,64}", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Target:
    """Where a daemon's metrics are, and the headers that go there and nowhere else.

    `path` begins with a slash; `authority` is the host, and the port where it was named.
    """

    origin: Origin
    path: str
    authority: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # they may hold a token


@dataclass(frozen=True, slots=True)
class ServerProxy:
    """The daemon is reached through the control plane alone."""


@dataclass(frozen=True, slots=True)
class NotAllowed:
    """The endpoint's host may not be called, or (None) it is no endpoint at all."""

    host: str | None


class EndpointPolicy:
    """Which hosts may be called directly: the control plane's own, and those of the configuration.

    `allowed` holds lower-case host suffixes, which match whole labels, and CIDRs, which match addresses.
    """

    def __init__(self, control_plane: str, allowed: Iterable[str]) -> None:
        parts = urlsplit(control_plane)
        self._scheme = parts.scheme
        self._own = parts.hostname or ""
        self._networks: list[_Network] = []
        self._suffixes: list[str] = []
        for rule in allowed:
            network = _network(rule)
            if network is None:
                self._suffixes.append(rule)
            else:
                self._networks.append(network)

    def allows(self, host: str) -> bool:
        """Tell whether a host, as `resolve` found it, may be called; names are not looked up."""
        if host == self._own or (is_loopback(host) and is_loopback(self._own)):
            return True
        address = _address(host)
        if address is not None:
            return address == _address(self._own) or any(address in network for network in self._networks)
        return any(host == suffix or host.endswith(f".{suffix}") for suffix in self._suffixes)

    def resolve(self, body: bytes, sandbox_id: str) -> Target | ServerProxy | NotAllowed | None:
        """Return where an endpoints answer leads, or None if it is no such answer.

        Forms: `host:port`, `host:port/path`, `host/path` and `host`, without a scheme; anything more is refused.
        """
        answer = parse_object(body) or {}
        endpoint = answer.get("endpoint")
        if not isinstance(endpoint, str):
            return None
        match = _ENDPOINT.fullmatch(endpoint) if len(endpoint) <= _MAX_ENDPOINT_CHARACTERS else None
        headers = endpoint_headers(body)
        port = int(match["port"]) if match and match["port"] else None
        if match is None or headers is None or (port is not None and not 1 <= port <= _LARGEST_PORT):
            return NotAllowed(None)
        host = _canonical(match["six"] or match["host"])
        if host is None:
            return NotAllowed(None)
        path = match["path"]
        if path.endswith(f"/sandboxes/{sandbox_id}/proxy/{EXECD_PORT}"):
            return ServerProxy()
        if not self.allows(host):
            return NotAllowed(host)
        # On Docker execd forwards /proxy/44772 to itself: the short path writes fewer lines into the sandbox's log.
        path = "" if path == f"/proxy/{EXECD_PORT}" else path
        return self._target(host, port, f"{path}/metrics", headers)

    def _target(self, host: str, port: int | None, path: str, headers: tuple[tuple[str, str], ...]) -> Target:
        # An answer has no scheme. An address is taken for execd's own, which has no TLS; a name for a gateway's, which
        # speaks as the control plane does.
        address = _address(host)
        scheme = self._scheme if address is None else "http"
        shown = f"[{host}]" if isinstance(address, ipaddress.IPv6Address) else host
        origin = Origin(scheme == "https", host, port or DEFAULT_PORTS[scheme])
        return Target(origin, path, shown if port is None else f"{shown}:{port}", headers)


def _canonical(host: str) -> str | None:
    """Return a host in one spelling, or None for a name that a resolver might take for an address."""
    address = _address(host)
    if address is not None:
        return str(address)
    return None if ":" in host or _NUMBER_LABEL.fullmatch(host) else host.lower()


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    # The kernel connects a mapped address by IPv4, so the rules for IPv4 hold for it.
    return getattr(address, "ipv4_mapped", None) or address


def _network(rule: str) -> _Network | None:
    try:
        return ipaddress.ip_network(rule)
    except ValueError:
        return None


def endpoint_headers(body: bytes) -> tuple[tuple[str, str], ...] | None:
    """Return the headers of an endpoints answer, or None where one could frame, route or authenticate a request.

    A control plane gives headers of its own name space, or of `X-`.
    """
    found = (parse_object(body) or {}).get("headers")
    if found is None:
        return ()
    if not isinstance(found, dict) or len(found) > _MAX_HEADERS:
        return None
    return tuple(found.items()) if all(_is_sendable(name, value) for name, value in found.items()) else None


def _is_sendable(name: str, value: object) -> bool:
    if not isinstance(value, str) or len(value) > _MAX_HEADER_CHARACTERS:
        return False
    return bool(_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value))
