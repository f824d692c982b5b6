"""Which container is a sandbox's: by whole ids out of Docker's list, never by what Docker itself would find."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sandgauge_poller.reading.usage.source import UsageTarget

SANDBOX_LABEL = "opensandbox.io/id"
"""Label that OpenSandbox gives each container: the id of its sandbox."""

_ID = re.compile(r"[0-9a-f]{64}")
_PREFIX = re.compile(r"[0-9a-f]{12,64}")
"""OpenSandbox shows the first 12 digits."""

_RUNNING = frozenset({"running", "paused", "restarting"})


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """One container of a list: its whole id, which sandbox its label names, and when it was made (ns)."""

    id: str
    sandbox_id: str | None
    is_running: bool
    created_ns: int


def is_whole_id(id_: str) -> bool:
    """Tell whether it has all its digits, so that it means one container and no name is mistaken for it."""
    return _ID.fullmatch(id_) is not None


def parse_list(body: bytes) -> list[ListedContainer] | None:
    """Return the containers of a list, or None for another format. A long one is meant for a thread.

    Each is condensed as soon as the parser has read it: so a list takes little more memory than its text, and the
    parser, which else would hold the interpreter until its end, lets other threads run in between.
    """
    try:
        answer = json.loads(body, object_hook=_condense)
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, list):
        return None
    return [container for container in answer if isinstance(container, ListedContainer)]


class Index:
    """The containers of a list, by what a sandbox's designator says of them."""

    def __init__(self, containers: Iterable[ListedContainer]) -> None:
        self._by_prefix: dict[str, list[ListedContainer]] = {}
        for container in containers:
            self._by_prefix.setdefault(container.id[:12], []).append(container)

    def find(self, target: UsageTarget) -> ListedContainer | None:
        """Return the one container that is the sandbox's; None where there is none, or no telling which."""
        digits = target.designator.id
        if _PREFIX.fullmatch(digits) is None:
            return None
        found = [
            container
            for container in self._by_prefix.get(digits[:12], ())
            # A label that names another sandbox settles that it is not this one's.
            if container.id.startswith(digits) and container.sandbox_id in (None, target.sandbox_id)
        ]
        labelled = [container for container in found if container.sandbox_id is not None]
        candidates = labelled or found
        return candidates[0] if len(candidates) == 1 else None


def _condense(found: dict[str, Any]) -> object:
    # Labels themselves may have any key, but no object under it.
    return _listed(found) if "Id" in found and not isinstance(found.get("Labels", ""), str) else found


def _listed(entry: dict[str, Any]) -> ListedContainer | None:
    id_, labels, created = entry.get("Id"), entry.get("Labels"), entry.get("Created")
    if not isinstance(id_, str) or not is_whole_id(id_):
        return None
    label = labels.get(SANDBOX_LABEL) if isinstance(labels, dict) else None
    return ListedContainer(
        id=id_,
        sandbox_id=label if isinstance(label, str) else None,
        is_running=str(entry.get("State")) in _RUNNING,
        created_ns=created * 10**9 if isinstance(created, int) and not isinstance(created, bool) else 0,
    )
