"""What Docker's inspect answer says of a container: identity, limits, state.

The answer also holds the container's environment and mounts, and with them its secrets: nothing of it is kept but what
stands in `Container`, and no error quotes it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.docker.identity import is_whole_id
from sandgauge_poller.reading.docker.limits import read_limits
from sandgauge_poller.reading.provider import SandboxState
from sandgauge_poller.reading.times import read_time
from sandgauge_schemas.names import AllocationNote
from sandgauge_schemas.resources import SandboxResourceAmounts

_SHOWN_ID = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}")
"""An id as Docker itself shows it, in short or whole."""

_STATES = {
    "created": SandboxState.PENDING,
    "restarting": SandboxState.PENDING,
    "running": SandboxState.RUNNING,
    "paused": SandboxState.PAUSED,
    "removing": SandboxState.STOPPING,
}
_OVER = frozenset({"exited", "dead"})
_LIVE = frozenset({"running", "paused"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container; `id` has all its 64 digits, `name` no leading slash.

    `started_ns`: when its present life began, ns since the epoch on the daemon's clock; None before its first.
    `oom_killed`: whether memory was the reason of its end, or of the kill of a process in it since it began its first
    life. None where that cannot be told: before version 24 a daemon keeps the flag of an earlier life.
    """

    id: str
    name: str
    state: SandboxState
    limits: SandboxResourceAmounts
    notes: frozenset[AllocationNote]
    started_ns: int | None
    oom_killed: bool | None

    def is_called(self, sandbox_id: str) -> bool:
        """Tell whether that is its id, as Docker shows ids, or else its name.

        Docker itself finds containers by any digits that their id begins with, and by a name before any id: one that is
        called as another's id is not taken for that other.
        """
        return self.id.startswith(sandbox_id) if _SHOWN_ID.fullmatch(sandbox_id) else self.name == sandbox_id


def parse_container(body: bytes) -> Container | None:
    """Return what an inspect answer says, or None where it is none."""
    answer = parse_object(body) or {}
    id_, name, state, host = (answer.get(key) for key in ("Id", "Name", "State", "HostConfig"))
    if not (isinstance(id_, str) and is_whole_id(id_) and isinstance(name, str)):
        return None
    if not (isinstance(state, dict) and isinstance(host, dict) and isinstance(state.get("Status"), str)):
        return None
    limits, notes = read_limits(host)
    return Container(
        id=id_,
        name=name.removeprefix("/"),
        state=_state(state),
        limits=limits,
        notes=notes,
        started_ns=_time(state.get("StartedAt")),
        oom_killed=_oom_killed(state),
    )


def _state(state: Mapping[str, Any]) -> SandboxState:
    if state["Status"] in _OVER:
        return SandboxState.TERMINATED if state.get("ExitCode") == 0 else SandboxState.FAILED
    return _STATES.get(state["Status"], SandboxState.UNKNOWN)


def _oom_killed(state: Mapping[str, Any]) -> bool | None:
    flag = state.get("OOMKilled")
    if not isinstance(flag, bool):
        return None
    has_ended_before = _time(state.get("FinishedAt")) is not None
    is_stale = flag and state["Status"] in _LIVE and has_ended_before
    return None if is_stale else flag


def _time(text: object) -> int | None:
    """Return a time in ns since the epoch; Docker writes the year 1 for what never was."""
    time_ns = read_time(text)
    return time_ns if time_ns is not None and time_ns > 0 else None
