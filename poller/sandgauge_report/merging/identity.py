"""Which records are of one sandbox: those of one provider and id, unless two control planes gave the same id."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sandgauge_report.merging.inventory import SandboxKey
from sandgauge_report.merging.sandbox_state import SandboxState


class Identified(NamedTuple):
    """One sandbox, and all that is said of it."""

    provider: str | None
    sandbox_id: str
    state: SandboxState


def identified(parts: Mapping[SandboxKey, SandboxState]) -> Iterator[Identified]:
    """Put together what the traces say of each sandbox.

    Spans that name no provider count for the only one that has their sandbox. The start span alone names the control
    plane; the poller's spans are in its trace.
    """
    of_id: dict[str, list[SandboxKey]] = {}
    for key in parts:
        of_id.setdefault(key.sandbox_id, []).append(key)
    for sandbox_id, keys in of_id.items():
        named = {key.provider for key in keys if key.provider}
        only = named.pop() if len(named) == 1 else ""
        of_provider: dict[str, list[SandboxState]] = {}
        for key in keys:
            of_provider.setdefault(key.provider or only, []).append(parts[key])
        for provider, states in of_provider.items():
            for state in _of_one_control_plane_each(states):
                yield Identified(provider or None, sandbox_id, state)


def _of_one_control_plane_each(states: list[SandboxState]) -> Iterator[SandboxState]:
    of_scope: dict[str | None, list[SandboxState]] = {}
    for state in states:
        of_scope.setdefault(state.scope, []).append(state)
    scopes = of_scope.keys() - {None}
    if len(scopes) < 2:  # noqa: PLR2004  # else one id is of several sandboxes
        yield _whole(states)
        return
    yield from (_whole(of_scope[scope]) for scope in scopes)
    # Nothing says whose these are. A stop that stands in a trace of its own is no sandbox.
    yield from (state for state in of_scope.get(None, ()) if state.trace_id.value is not None)


def _whole(states: list[SandboxState]) -> SandboxState:
    if len(states) == 1:
        return states[0]
    whole = SandboxState()
    for state in states:
        whole.absorb(state)
    return whole
