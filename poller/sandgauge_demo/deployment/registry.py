"""The sandboxes of a simulated deployment, and what may happen to them: no input or output, the clock is passed in."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256

from sandgauge_demo.deployment.model import (
    Component,
    ExecdKind,
    Runtime,
    SandboxState,
    SimulatedNode,
    SimulatedSandbox,
)
from sandgauge_demo.deployment.specs import SandboxChanges, SandboxSpec
from sandgauge_demo.deployment.usage import plausible_usage

KILLED = 137
"""Exit code of a process ended by SIGKILL, which is what the kernel does when memory runs out."""


class UnknownSandboxError(Exception):
    """There is no such sandbox, or no longer."""


class WrongStateError(Exception):
    """The sandbox is not in the state that the operation needs."""


class SimulatedDeployment:
    """Every sandbox by its id. `clock` gives seconds since the epoch."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        runtime: Runtime = Runtime.DOCKER,
        execd_kind: ExecdKind = ExecdKind.RUNC,
        nodes: Sequence[SimulatedNode] = (SimulatedNode(),),
    ) -> None:
        self.clock = clock
        self.runtime = runtime
        self.started_at = clock()
        self._execd_kind = execd_kind
        self._nodes = {node.name: node for node in nodes}
        self._sandboxes: dict[str, SimulatedSandbox] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._created = 0

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with a sandbox's id after each of its changes."""
        self._listeners.append(listener)

    def create(self, spec: SandboxSpec) -> SimulatedSandbox:
        """Create a sandbox; the nodes take turns. Raise WrongStateError for an id that is taken."""
        sandbox_id = spec.id or str(uuid.uuid4())
        if self.find(sandbox_id) is not None:
            raise WrongStateError(f"sandbox {sandbox_id} is there already")
        now, number = self.clock(), self._created
        self._created += 1
        main = Component(limits=dict(spec.limits), requests=dict(spec.requests))
        sandbox = SimulatedSandbox(
            id=sandbox_id,
            runtime=spec.runtime or self.runtime,
            execd_kind=spec.execd_kind or self._execd_kind,
            components=(main, *spec.sidecars),
            node=self._node(spec.node, number),
            address=f"10.{128 + number // 65536 % 128}.{number // 256 % 256}.{number % 256}",
            container_id=sha256(sandbox_id.encode()).hexdigest()[:12],
            created_at=now,
            expires_at=None if spec.timeout_s is None else now + spec.timeout_s,
            started_at=now,
            state=spec.state,
            state_since=now,
            usage=plausible_usage(sandbox_id, main.limits.get("cpu"), main.limits.get("memory"))
            if spec.usage is None
            else spec.usage,
            image=spec.image,
            entrypoint=spec.entrypoint,
            metadata=dict(spec.metadata),
            environment={**spec.environment, "OPENSANDBOX_ID": sandbox_id},
            secure_access_token=spec.secure_access_token,
        )
        self._put(sandbox)
        return sandbox

    def find(self, sandbox_id: str) -> SimulatedSandbox | None:
        """Return a sandbox, or None where there is none; one past its expiry is removed on the way."""
        sandbox = self._sandboxes.get(sandbox_id)
        if sandbox is not None and sandbox.expires_at is not None and sandbox.expires_at <= self.clock():
            self.delete(sandbox_id)
            return None
        return sandbox

    def get(self, sandbox_id: str) -> SimulatedSandbox:
        """Return a sandbox. Raise UnknownSandboxError where there is none."""
        sandbox = self.find(sandbox_id)
        if sandbox is None:
            raise UnknownSandboxError(sandbox_id)
        return sandbox

    def newest_first(self) -> list[SimulatedSandbox]:
        """Return all sandboxes, the newest first."""
        return [
            sandbox for sandbox_id in reversed(list(self._sandboxes)) if (sandbox := self.find(sandbox_id)) is not None
        ]

    def delete(self, sandbox_id: str) -> None:
        """Remove a sandbox. Raise UnknownSandboxError where there is none."""
        if self._sandboxes.pop(sandbox_id, None) is None:
            raise UnknownSandboxError(sandbox_id)
        self._tell(sandbox_id)

    def pause(self, sandbox_id: str) -> None:
        """Freeze a container, or delete a pod. Raise WrongStateError for a sandbox that does not run."""
        self._require(sandbox_id, SandboxState.RUNNING)
        self.change(sandbox_id, SandboxChanges(state=SandboxState.PAUSED))

    def resume(self, sandbox_id: str) -> None:
        """Thaw a container, or make a new pod on the next node. Raise WrongStateError where nothing is paused."""
        sandbox = self._require(sandbox_id, SandboxState.PAUSED)
        names = list(self._nodes)
        following = names[(names.index(sandbox.node.name) + 1) % len(names)]
        node = None if sandbox.runtime is Runtime.DOCKER else following
        self.change(sandbox_id, SandboxChanges(state=SandboxState.RUNNING, node=node))

    def end(self, sandbox_id: str, *, exit_code: int = 0, oom_killed: bool = False) -> None:
        """Let the entrypoint end: `Terminated` for exit code 0, else `Failed`. The record stays."""
        state = SandboxState.FAILED if exit_code else SandboxState.TERMINATED
        self.change(sandbox_id, SandboxChanges(state=state, exit_code=exit_code, oom_killed=oom_killed))

    def expire(self, sandbox_id: str) -> None:
        """Let the time to live run out now."""
        self.change(sandbox_id, SandboxChanges(expires_at=self.clock()))

    def change(self, sandbox_id: str, changes: SandboxChanges) -> SimulatedSandbox:
        """Change what is given of a sandbox, whatever its state, and return it.

        Raise UnknownSandboxError where there is none, and KeyError for a node that does not exist.
        """
        sandbox = self.get(sandbox_id)
        given = {name: value for name, value in changes if value is not None}
        main = sandbox.components[0]
        main = replace(main, limits=given.pop("limits", main.limits), requests=given.pop("requests", main.requests))
        given["components"] = (main, *sandbox.components[1:])
        if "node" in given:
            given["node"] = self._nodes[given["node"]]
        if given.get("state", sandbox.state) is not sandbox.state:
            given["state_since"] = self.clock()
            if not sandbox.has_container:
                given |= {"started_at": self.clock(), "restarts": 0}  # another pod
        changed = replace(sandbox, **given)
        self._put(changed)
        return changed

    def _require(self, sandbox_id: str, state: SandboxState) -> SimulatedSandbox:
        sandbox = self.get(sandbox_id)
        if sandbox.state is not state:
            raise WrongStateError(f"sandbox {sandbox_id} is {sandbox.state}, not {state}")
        return sandbox

    def _node(self, name: str | None, number: int) -> SimulatedNode:
        if name is not None:
            return self._nodes[name]
        return list(self._nodes.values())[number % len(self._nodes)]

    def _put(self, sandbox: SimulatedSandbox) -> None:
        self._sandboxes[sandbox.id] = sandbox
        self._tell(sandbox.id)

    def _tell(self, sandbox_id: str) -> None:
        for listener in self._listeners:
            listener(sandbox_id)
