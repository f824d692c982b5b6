"""Which spans belong to which deployment, as the configuration has it."""

import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from sandgauge_poller.config import Deployment
from sandgauge_poller.doctor.finding import Finding, passed, warned

_WHAT = "scopes"


def examine(deployments: Sequence[Deployment]) -> Iterator[Finding]:
    """Yield how spans find their deployment, and which deployments look like the same control plane."""
    if not deployments:
        cure = "name a control plane under deployments"
        yield warned(_WHAT, "no deployment is configured: spans are taken in, and no sandbox is read", cure)
    elif len(deployments) == 1:
        yield passed(_WHAT, f"{deployments[0].name} is the only deployment, so it takes every span of its provider")
    else:
        shared = Counter(deployment.provider for deployment in deployments)
        alone = [deployment for deployment in deployments if shared[deployment.provider] == 1]
        for d in alone:
            yield passed(_WHAT, f"{d.name} takes every span of provider {d.provider}, as its only deployment")
        several = [deployment for deployment in deployments if deployment not in alone]
        if several:
            names = ", ".join(f"{d.name} ({', '.join(sorted(d.identities))})" for d in several)
            yield passed(_WHAT, f"a span must name its control plane: {names}")
    yield from _alike(deployments)


def _alike(deployments: Sequence[Deployment]) -> Iterator[Finding]:
    """Yield pairs whose names resolve to the same address and port: each sandbox there would be read by one of them."""
    owners: dict[tuple[str, int, str], str] = {}
    for deployment in deployments:
        for place in _places(deployment.endpoint):
            other = owners.setdefault(place, deployment.name)
            if other != deployment.name:
                cure = "keep one of them, and name the other URL under its scopes"
                yield warned(_WHAT, f"{other} and {deployment.name} seem to be one control plane", cure)
                break


def _places(endpoint: str) -> set[tuple[str, int, str]]:
    parts = urlsplit(endpoint)
    if parts.scheme == "unix":
        return {(str(Path(parts.path).resolve()), 0, "")}  # /var/run is most often a link to /run
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return set()  # that it cannot be reached is said where it is called
    return {(str(address[0]), port, parts.path) for *_, address in found}
