"""Where the emitter's own provider sends its spans: OpenTelemetry's variables, with NeMo Gym's defaults. Pure."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, unquote, urlsplit

_TRACES_PATH = "/v1/traces"
_DEFAULT_TIMEOUT_S = 10.0
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


class Protocol(StrEnum):
    """How OTLP is spoken, as `OTEL_EXPORTER_OTLP_PROTOCOL` writes it."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


_PORTS = {Protocol.GRPC: 4317, Protocol.HTTP: 4318}

IsInstalled = Callable[[Protocol], bool]
"""Whether this process could load the exporter of a protocol."""


class UnusableEndpointError(ValueError):
    """An endpoint is no address; the message names the setting and not its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What an exporter is built with.

    `endpoint` is the whole URL for HTTP, and scheme, host and port for gRPC; `timeout_s` is for one batch, its
    retries included; `notes` say what was not taken as it is written.
    """

    protocol: Protocol
    endpoint: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    notes: tuple[str, ...]


def resolve(environment: Mapping[str, str], endpoint: str | None, is_installed: IsInstalled) -> Target:
    """Return where to send spans; `endpoint` is a base URL that comes before those of the environment.

    Raises:
        UnusableEndpointError: The endpoint has no host, no valid port, or a scheme other than http and https.

    """
    notes: list[str] = []
    asked = _asked_protocol(environment, is_installed, notes)
    address = _address(environment, endpoint, notes)
    protocol = asked or _likely_protocol(address, is_installed)
    return Target(
        protocol=protocol,
        endpoint=_endpoint(address, protocol, is_asked=asked is not None, notes=notes),
        headers=parse_headers(*_setting(environment, "HEADERS"), notes),
        timeout_s=_timeout(*_setting(environment, "TIMEOUT"), notes),
        notes=tuple(notes),
    )


def parse_headers(variable: str, text: str, notes: list[str]) -> dict[str, str]:
    """Return the headers of `name=value,…`: names in small letters, values percent-decoded, every further `=` kept.

    A value that no header can hold is emptied rather than left out: the exporter reads the variable as well, and its
    own error would print the value.
    """
    headers: dict[str, str] = {}
    for place, item in enumerate(filter(None, (part.strip() for part in text.split(","))), start=1):
        written_name, separator, written_value = item.partition("=")
        name, value = unquote(written_name).strip().lower(), unquote(written_value).strip()
        if not separator or not _HEADER_NAME.fullmatch(name):
            notes.append(f"{variable}: entry {place} is not name=value and is left out")
        elif not _HEADER_VALUE.fullmatch(value):
            notes.append(f"{variable}: the value of entry {place} holds what no header can and is sent empty")
            headers[name] = ""
        else:
            headers[name] = value
    return headers


@dataclass(frozen=True, slots=True)
class _Address:
    """An endpoint and the setting it came from; `is_whole` when it is the URL of traces alone and not a base."""

    setting: str
    url: SplitResult
    is_whole: bool


def _setting(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable that counts and its text: that of traces, else that of all signals; empty is unset."""
    own, common = f"OTEL_EXPORTER_OTLP_TRACES_{name}", f"OTEL_EXPORTER_OTLP_{name}"
    variable = own if environment.get(own) else common
    return variable, environment.get(variable, "")


def _asked_protocol(environment: Mapping[str, str], is_installed: IsInstalled, notes: list[str]) -> Protocol | None:
    variable, text = _setting(environment, "PROTOCOL")
    written = text.strip().lower()
    if not written:
        return None
    if written == Protocol.GRPC and not is_installed(Protocol.GRPC):
        notes.append(f"{variable} is grpc, whose exporter is not installed: http/protobuf is used")
        return None
    if written not in set(Protocol):
        notes.append(f"{variable} is neither grpc nor http/protobuf: http/protobuf is used")
        return Protocol.HTTP
    return Protocol(written)


def _likely_protocol(address: _Address | None, is_installed: IsInstalled) -> Protocol:
    """Return NeMo Gym's default, unless its exporter is missing or the port is that of OTLP/HTTP."""
    is_http_port = address is not None and address.url.port == _PORTS[Protocol.HTTP]
    return Protocol.HTTP if is_http_port or not is_installed(Protocol.GRPC) else Protocol.GRPC


def _address(environment: Mapping[str, str], endpoint: str | None, notes: list[str]) -> _Address | None:
    variable, text = _setting(environment, "ENDPOINT")
    if endpoint:
        setting, written, is_whole = "configure(endpoint=...)", endpoint.strip(), False
    else:
        setting, written, is_whole = variable, text.strip(), variable.endswith("TRACES_ENDPOINT")
    if not written:
        return None
    if "://" not in written:
        notes.append(f"{setting} has no scheme and is taken as http://")
        written = f"http://{written}"
    try:
        url = urlsplit(written)
        host, _ = url.hostname, url.port
    except ValueError:
        raise UnusableEndpointError(f"{setting} has no valid host and port") from None
    if url.scheme not in {"http", "https"}:
        raise UnusableEndpointError(f"{setting} is neither http nor https")
    if not host:
        raise UnusableEndpointError(f"{setting} has no host")
    return _Address(setting, url, is_whole)


def _endpoint(address: _Address | None, protocol: Protocol, *, is_asked: bool, notes: list[str]) -> str:
    if address is None:
        base = f"http://localhost:{_PORTS[protocol]}"
        return base if protocol is Protocol.GRPC else base + _TRACES_PATH
    if protocol is Protocol.GRPC:
        return f"{address.url.scheme}://{address.url.netloc}"
    url = address.url
    if url.port == _PORTS[Protocol.GRPC]:
        if is_asked:
            notes.append(f"{address.setting} has the port of gRPC, but http/protobuf is asked for; its port is 4318")
        else:
            notes.append(f"{address.setting}: spans go to port 4318, since 4317 is the port of gRPC")
            url = url._replace(netloc=f"{url.netloc.removesuffix('4317')}4318")
    return url._replace(path=_traces_path(address, notes)).geturl()


def _traces_path(address: _Address, notes: list[str]) -> str:
    path = address.url.path.rstrip("/")
    if address.is_whole:
        if not path:
            notes.append(f"{address.setting} has no path: {_TRACES_PATH} is added")
        return address.url.path if path else _TRACES_PATH
    if path.endswith(_TRACES_PATH):
        notes.append(f"{address.setting} ends in {_TRACES_PATH}, which is added to it: it is taken as the whole URL")
        return path
    return path + _TRACES_PATH


def _timeout(variable: str, text: str, notes: list[str]) -> float:
    if not text.strip():
        return _DEFAULT_TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if 0 < seconds < math.inf:
        return seconds
    notes.append(f"{variable} is not a number of seconds: {_DEFAULT_TIMEOUT_S:g} is used")
    return _DEFAULT_TIMEOUT_S
