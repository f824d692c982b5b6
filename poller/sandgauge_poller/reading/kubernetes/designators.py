"""Designators of pods: which pod of which namespace a sandbox is."""

import re
from typing import NamedTuple

from sandgauge_schemas.placement import Identity

KIND = "kubernetes"
_ID = re.compile(
    r"namespaces/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)"
    r"/pods/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)"
)


class PodName(NamedTuple):
    """A pod by its name within a namespace; both are names as Kubernetes allows them, and nothing else."""

    namespace: str
    name: str


def pod_of(designator: Identity) -> PodName | None:
    """Return the pod that a designator names, or None where it is none of a pod."""
    found = _ID.fullmatch(designator.id) if designator.kind == KIND else None
    return None if found is None else PodName(*found.groups())
