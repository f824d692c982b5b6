"""What concerns the list of deployments as a whole: which are switched off, and which collide."""

from collections.abc import Iterator, Mapping
from typing import Any

from sandgauge_poller.config.deployment import Deployment
from sandgauge_poller.config.environment import is_switched_off
from sandgauge_poller.config.errors import Fault, KeyPath
from sandgauge_poller.config.model import Config
from sandgauge_poller.config.section import mappings
from sandgauge_poller.config.urls import scope_identity

_SWITCHED_OFF = Deployment(name="switched-off", endpoint="http://switched-off.invalid")
"""Keeps the place of a deployment that is left out, so that positions in messages stay those of the file."""


def switch_off(data: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[Fault]]:
    """Return `data` with a stand-in for each deployment whose endpoint is an `${env:NAME:-}` that comes out empty."""
    entries = data.get("deployments")
    if not isinstance(entries, list):
        return dict(data), []
    off = [index for index, entry in mappings(entries) if is_switched_off(entry.get("endpoint"), environ)]
    notes = [
        Fault(
            ("deployments", index, "endpoint"),
            "is empty, so this deployment is left out",
            "set its variable to read it",
        )
        for index in off
    ]
    kept = [_SWITCHED_OFF if index in off else entry for index, entry in enumerate(entries)]
    return {**data, "deployments": kept}, notes


def without_switched_off(config: Config) -> Config:
    """Return `config` without the stand-ins."""
    deployments = tuple(deployment for deployment in config.deployments if deployment is not _SWITCHED_OFF)
    return config.model_copy(update={"deployments": deployments})


def collisions(entries: object) -> Iterator[Fault]:
    """Yield a fault for each name, and each control plane, that an earlier deployment has.

    Reads the file's own entries, so that a fault elsewhere in a deployment does not hide these.
    """
    names: set[str] = set()
    owners: dict[str, int] = {}
    for index, entry in mappings(entries):
        name = entry.get("name")
        if isinstance(name, str) and name in names:
            yield Fault(("deployments", index, "name"), "is the name of an earlier deployment", "choose another name")
        elif isinstance(name, str):
            names.add(name)
        for path, text in _control_planes(entry):
            identity = scope_identity(text)
            if identity is not None and owners.setdefault(identity, index) != index:
                reason = "is the control plane of an earlier deployment"
                cure = "keep one of them; case, default port, trailing slash and /v1 make no difference"
                yield Fault(("deployments", index, *path), reason, cure)


def _control_planes(entry: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(endpoint := entry.get("endpoint"), str):
        yield ("endpoint",), endpoint
    if isinstance(scopes := entry.get("scopes"), list):
        yield from ((("scopes", index), scope) for index, scope in enumerate(scopes) if isinstance(scope, str))
