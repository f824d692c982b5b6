"""Addresses: URLs that are called, names of control planes that are only compared, and where to listen."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from sandgauge_poller.config.errors import InvalidValueError
from sandgauge_schemas.scope import control_plane_scope

DEFAULT_PORTS = {"http": 80, "https": 443}
_UNIX = "unix://"
_LARGEST_PORT = 65535
_BLANK_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f]")
_HOST_LABELS = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*")
_LISTEN = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[0-9]{1,5})")


def scope_identity(url: str) -> str | None:
    """Return the name under which a control plane is known, or None when `url` names none.

    Without user information, query, fragment, trailing slash, `/v1` and default port; scheme and host in small letters.
    Any text may come in: spans carry it. The result is compared with configured names and is not called.
    """
    scope = control_plane_scope(url)
    if scope is None or scope.startswith(_UNIX):
        return scope
    parts = urlsplit(scope)
    host = parts.hostname or ""
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{shown_host}{shown_port}{_without_version(parts.path)}"


def _without_version(path: str) -> str:
    stripped = path.rstrip("/")
    while stripped.endswith("/v1"):
        stripped = stripped.removesuffix("/v1").rstrip("/")
    return stripped


def parse_control_plane(text: str) -> str:
    """Return the URL of a control plane in the form of `scope_identity`, to which `/v1/…` is added.

    Raises:
        InvalidValueError: `text` is no HTTP URL, or holds more than an address.

    """
    return _parse_called(text, "http://127.0.0.1:8080", "leave it out and write the key as api_key")


def _parse_called(text: str, example: str, secret_cure: str) -> str:
    _check_http_url(text, example, secret_cure)
    identity = scope_identity(text)
    if identity is None:
        raise InvalidValueError("is not a URL", f"write it as {example}")
    return identity


def parse_docker_daemon(text: str) -> str:
    """Return the URL of Docker's Engine API in the form of `scope_identity`: a socket's path, or an HTTP URL.

    Raises:
        InvalidValueError: `text` is neither, or holds more than an address.

    """
    example = "unix:///var/run/docker.sock"
    if text.startswith("/"):
        raise InvalidValueError("is a path without a scheme", f"write it as {example}")
    if text.startswith("tcp:"):
        raise InvalidValueError("does not say whether it speaks TLS", "write https:// in place of tcp://, or http://")
    if not text.startswith("unix:"):
        return _parse_called(text, example, "leave it out; a daemon asks for a certificate, which stands under tls")
    if _BLANK_OR_CONTROL.search(text) or not text.startswith(f"{_UNIX}/") or "?" in text or "#" in text:
        raise InvalidValueError("is not the path of a socket", f"write it as {example}")
    return text


def parse_scope(text: str) -> str:
    """Return a name of a control plane or of a Docker daemon in the form of `scope_identity`.

    Raises:
        InvalidValueError: `text` names neither.

    """
    return parse_docker_daemon(text) if text.startswith("unix:") else parse_control_plane(text)


def parse_collector(text: str) -> str:
    """Return the base URL of an OTLP/HTTP receiver without trailing slash, to which `/v1/traces` is added.

    Raises:
        InvalidValueError: `text` is no HTTP URL, or holds more than an address.

    """
    parts = _check_http_url(text, "http://127.0.0.1:4318", "leave it out and write it under headers")
    base = text.rstrip("/")
    if parts.path.rstrip("/").endswith(("/v1/traces", "/v1/metrics")):
        raise InvalidValueError(
            "ends in the path of one signal", "leave off /v1/traces or /v1/metrics: it is added to the URL"
        )
    return base


def _check_http_url(text: str, example: str, secret_cure: str) -> SplitResult:
    if not text:
        raise InvalidValueError("is empty", f"write a URL such as {example}")
    if _BLANK_OR_CONTROL.search(text):
        raise InvalidValueError("holds a blank or a line break", f"write the URL alone, such as {example}")
    if "://" not in text:
        raise InvalidValueError("has no scheme", f"start it with http:// or https://, such as {example}")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidValueError("has no valid host and port", f"write it as {example}") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise InvalidValueError("is neither http nor https", f"write it as {example}")
    if not host:
        raise InvalidValueError("has no host", f"write it as {example}")
    if parts.username is not None or parts.password is not None:
        raise InvalidValueError("holds user information", secret_cure)
    if "?" in text or "#" in text:
        raise InvalidValueError("holds a query or a fragment", f"write the address alone, such as {example}")
    return parts


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a server listens; port 0 takes any free port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    def is_at(self, url: str) -> bool:
        """Return whether `url` surely leads here; a name that only resolves to this machine is not known."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme)
        return port == self.port and (host == self.host or (is_loopback(host) and self._takes_loopback))

    @property
    def url(self) -> str:
        """Where a server that listens here is called on its own machine: on loopback where it takes every address."""
        address = _ip_address(self.host)
        if address is None or not address.is_unspecified:
            return f"http://{self}"
        loopback = "::1" if address.version == 6 else "127.0.0.1"  # noqa: PLR2004  # IPv6
        return f"http://{ListenAddress(loopback, self.port)}"

    @property
    def _takes_loopback(self) -> bool:
        address = _ip_address(self.host)
        return self.is_loopback or (address is not None and address.is_unspecified)

    def __str__(self) -> str:
        """Return `host:port`, with brackets around an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """Return host and port of `127.0.0.1:4319`, `[::1]:4319` or `localhost:4319`.

    Raises:
        InvalidValueError: `text` is not an address to listen on.

    """
    cure = "write host:port, such as 127.0.0.1:4319, or 0.0.0.0:4319 for every address"
    if "://" in text:
        raise InvalidValueError("is a URL", cure)
    match = _LISTEN.fullmatch(text)
    if match is None:
        raise InvalidValueError("is not host:port", cure)
    host, port = match["six"] or match["host"], int(match["port"])
    if port > _LARGEST_PORT:
        raise InvalidValueError("has a port above 65535", cure)
    if match["six"] is None and not _HOST_LABELS.fullmatch(host):
        raise InvalidValueError("has no valid host", cure)
    if match["six"] is not None and _ip_address(host) is None:
        raise InvalidValueError("has no valid IPv6 address", cure)
    return ListenAddress(host.lower(), port)


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address or `localhost`."""
    address = _ip_address(host)
    return address.is_loopback if address is not None else host.lower() == "localhost"


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def parse_host_rule(text: str) -> str:
    """Return an allowed host in small letters: a suffix such as `pods.example.com`, or a CIDR such as `10.0.0.0/8`.

    Raises:
        InvalidValueError: `text` is neither.

    """
    cure = "write a suffix such as sandboxes.example.com, or a network such as 10.0.0.0/8"
    if "://" in text:
        raise InvalidValueError("is a URL", cure)
    if "/" in text or _ip_address(text) is not None:
        return _parse_network(text, cure)
    suffix = text.lower().removeprefix(".")
    if not _HOST_LABELS.fullmatch(suffix):
        raise InvalidValueError("is neither a host suffix nor a network", cure)
    return suffix


def _parse_network(text: str, cure: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        raise InvalidValueError("is not a network, or has bits set beyond its prefix", cure) from None
