"""What a simulated deployment consists of: sandboxes, their containers, and the machines below them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sandgauge_demo.deployment.usage import Timeline, UsagePoint

Quantities = Mapping[str, str]
"""Resource name to Kubernetes quantity text, as in `{"cpu": "500m", "memory": "1Gi"}`."""

EXECD_PORT = 44772
HTTP_PORT = 8080


class Runtime(StrEnum):
    """What runs the sandboxes; it decides the inspect text, the error codes and what a pause does."""

    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    FAST_SANDBOX = "fast-sandbox"


class ExecdKind(StrEnum):
    """Whose machine execd sees, and so whose numbers it reports."""

    RUNC = "runc"
    """An ordinary container: CPU and memory of the whole node."""
    GVISOR = "gvisor"
    """The sandbox's own memory; the CPU percentage is always 0."""
    GUEST = "guest"
    """A virtual machine: the guest's own CPU and memory."""


class SandboxState(StrEnum):
    """The states that the real server reports."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"
    RUNNING = "Running"
    PAUSING = "Pausing"
    PAUSED = "Paused"
    RESUMING = "Resuming"
    STOPPING = "Stopping"
    TERMINATED = "Terminated"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


_WITHOUT_ADDRESS = (SandboxState.PENDING, SandboxState.UNKNOWN)
"""Not started yet, and a container that is being removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One container of a sandbox and what it was allocated. Docker knows one container, and its limits alone."""

    name: str = "sandbox"
    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """One machine. Its usage is its own: what every ordinary container on it reports, whatever the container does."""

    name: str = "node-1"
    address: str = "10.0.0.11"
    cpus: int = 16
    memory_mib: float = 64_276.55859375
    usage: Timeline = (
        UsagePoint(0.0, 3.2, 21_504.0),
        UsagePoint(60.0, 12.8, 40_960.0),
        UsagePoint(300.0, 8.0, 36_864.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSandbox:
    """One sandbox as it is now. Times are seconds since the epoch on the deployment's clock."""

    id: str
    runtime: Runtime
    execd_kind: ExecdKind
    components: tuple[Component, ...]
    """The main container first; there is always one."""
    node: SimulatedNode
    address: str
    """Of the container or pod, as the server and the inspect text show it."""
    container_id: str
    """The 12 digits that the inspect text shows."""
    created_at: float
    expires_at: float | None
    started_at: float
    """When its container or pod began its present life."""
    state: SandboxState
    state_since: float
    usage: Timeline
    """From `created_at` on."""
    image: str
    entrypoint: tuple[str, ...]
    metadata: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    exit_code: int = 0
    oom_killed: bool = False
    restarts: int = 0
    """Of the main container within its pod; a Docker container shows none."""
    execd_alive: bool = True
    execd_stopped: bool = False
    """Halted by SIGSTOP, until SIGCONT: the port still accepts connections."""
    secure_access_token: str | None = field(default=None, repr=False)

    @property
    def limits(self) -> Quantities:
        """Limits of the main container."""
        return self.components[0].limits

    @property
    def has_ended(self) -> bool:
        """Whether its entrypoint is over; the record stays until it is deleted or expires."""
        return self.state in (SandboxState.TERMINATED, SandboxState.FAILED)

    @property
    def has_container(self) -> bool:
        """Whether there is a container or pod to inspect: pausing deletes a pod, and only freezes a container."""
        return self.runtime is Runtime.DOCKER or self.state is not SandboxState.PAUSED

    @property
    def has_address(self) -> bool:
        """Whether the server's proxy has somewhere to connect to."""
        return self.has_container and not self.has_ended and self.state not in _WITHOUT_ADDRESS

    @property
    def is_frozen(self) -> bool:
        """Whether it accepts connections and never answers."""
        return self.has_container and (self.execd_stopped or self.state is SandboxState.PAUSED)
