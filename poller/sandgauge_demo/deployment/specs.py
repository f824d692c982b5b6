"""What callers may ask of the simulation, checked: the same shapes in Python and as JSON over the control routes."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sandgauge_demo.deployment.model import Component, ExecdKind, Runtime, SandboxState
from sandgauge_demo.deployment.usage import Timeline

SandboxId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SandboxSpec(_Spec):
    """A sandbox to create. What is not given comes from the deployment; `id` is a fresh UUID.

    `limits` and `requests` describe the main container; `sidecars` follow it, on Kubernetes.
    """

    id: SandboxId | None = None
    runtime: Runtime | None = None
    execd_kind: ExecdKind | None = None
    limits: Mapping[str, str] = {}
    requests: Mapping[str, str] = {}
    sidecars: tuple[Component, ...] = ()
    node: str | None = None
    state: SandboxState = SandboxState.RUNNING
    timeout_s: float | None = None
    usage: Timeline | None = None
    image: str = "busybox:1"
    entrypoint: tuple[str, ...] = ("sleep", "infinity")
    metadata: Mapping[str, str] = {}
    environment: Mapping[str, str] = Field(default={}, repr=False)
    secure_access_token: str | None = Field(default=None, repr=False)


class SandboxChanges(_Spec):
    """What to change on a sandbox that is there; what is not given stays."""

    state: SandboxState | None = None
    limits: Mapping[str, str] | None = None
    requests: Mapping[str, str] | None = None
    node: str | None = None
    execd_kind: ExecdKind | None = None
    execd_alive: bool | None = None
    execd_stopped: bool | None = None
    exit_code: int | None = None
    oom_killed: bool | None = None
    restarts: int | None = None
    expires_at: float | None = None
    usage: Timeline | None = None
