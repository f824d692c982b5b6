"""A control plane, a daemon and a provider for tests of the ways between them; the sandbox's id is always `ID`."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from support.http_stub import StubServer

ID = "92627880-8da7-4694-9127-d746bd54391a"
OTHER = "d47b9a31-68f9-4e21-9fa5-7b38047d525f"
KEY = "k3y-of-the-control-plane"
IMPATIENT_S = 3.0
"""A patience that can be waited for, within which an answer given at once comes on a busy machine too."""
METRICS = {
    "cpu_count": 2,
    "cpu_used_pct": 12.5,
    "mem_total_mib": 2048,
    "mem_used_mib": 90.5,
    "timestamp": 1795000001000,
}


def sandbox(sandbox_id: str = ID) -> str:
    return f"/v1/sandboxes/{sandbox_id}"


def inspect(sandbox_id: str = ID) -> str:
    return f"{sandbox(sandbox_id)}/diagnostics/inspect"


def endpoint(sandbox_id: str = ID) -> str:
    return f"{sandbox(sandbox_id)}/endpoints/44772"


def proxied(sandbox_id: str = ID) -> str:
    return f"{sandbox(sandbox_id)}/proxy/44772/metrics"


class StubControlPlane(StubServer):
    """A control plane that knows one running sandbox, whose daemon answers through the proxy."""

    def __init__(self) -> None:
        super().__init__()
        self.has_sandbox("Running")
        self.say(proxied(), json=METRICS)

    def has_sandbox(self, state: str, sandbox_id: str = ID, **more: object) -> None:
        self.say(sandbox(sandbox_id), json={"id": sandbox_id, "status": {"state": state}, **more})

    def names(self, target: str, sandbox_id: str = ID, headers: dict[str, str] | None = None) -> None:
        self.say(endpoint(sandbox_id), json={"endpoint": target, **({"headers": headers} if headers else {})})


class StubDaemon(StubServer):
    """A daemon that answers at once."""

    def __init__(self, metrics: dict[str, object] | None = None) -> None:
        super().__init__()
        self.say("/metrics", text=json.dumps(metrics or METRICS))

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.port}/proxy/44772"


@asynccontextmanager
async def opened(
    control_plane: StubServer, *, timeout_s: float = 60.0, clock: Clock = SYSTEM_CLOCK, **deployment: Any
) -> AsyncIterator[OpenSandboxProvider]:
    """Yield the provider of a deployment with the control plane's URL and `KEY`, patient where nothing else is said."""
    settings = {"name": "training", "endpoint": control_plane.url, "api_key": KEY, **deployment}
    provider = OpenSandboxProvider(
        Deployment(**settings), sample_timeout_s=timeout_s, allocation_timeout_s=timeout_s, clock=clock
    )
    try:
        yield provider
    finally:
        await provider.close()
