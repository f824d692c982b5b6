"""Sandboxes on an OpenSandbox control plane: `OPEN_SANDBOX_DOMAIN` is its URL, `OPEN_SANDBOX_API_KEY` its key.

The faults are those of the simulated control plane. A real one may need another image: `SCENARIO_IMAGE`.
"""

import os
from collections.abc import Mapping
from typing import Any

import httpx
from nemo_gym.sandbox.api import AsyncSandbox
from nemo_gym.sandbox.providers import SandboxSpec
from opensandbox.exceptions import SandboxApiException

TRIES = 3


def provider() -> dict[str, Any]:
    """Return Gym's configuration of the provider: it retries at once, and runs no command to see that one is up."""
    return {
        "opensandbox": {
            "connection": {
                "domain": os.environ["OPEN_SANDBOX_DOMAIN"],
                "api_key": os.environ.get("OPEN_SANDBOX_API_KEY"),
                "transport_backend": "httpx",
            },
            "create": {"skip_health_check": True, "retries": TRIES - 1, "retry_delay_s": 0},
            "probe": {"command": None},
        }
    }


def spec(resources: Mapping[str, float] | None = None, **options: Any) -> SandboxSpec:
    """Return a request with Gym's resource names; `options` are the provider's own."""
    return SandboxSpec(
        image=os.environ.get("SCENARIO_IMAGE", "ubuntu:22.04"),
        ttl_s=600,
        resources=resources or {},
        provider_options=options,
    )


async def start_and_stop(asked: SandboxSpec) -> str:
    """Run one sandbox and return its id."""
    async with AsyncSandbox(provider(), asked) as sandbox:
        await sandbox.start()
        return sandbox._handle.sandbox_id


async def opensandbox() -> dict[str, Any]:
    """Limits and requests."""
    asked = spec({"cpu": 2, "memory_mib": 4096, "disk_gib": 10}, resource_requests={"cpu": 0.5, "memory_mib": 512})
    return {"ids": [await start_and_stop(asked)]}


async def opensandbox_limits() -> dict[str, Any]:
    """Limits alone; then requests that mirror them."""
    resources = {"cpu": 0.5, "memory_mib": 1536}
    return {
        "ids": [
            await start_and_stop(spec(resources)),
            await start_and_stop(spec(resources, resource_requests="limits")),
        ]
    }


async def opensandbox_defaults() -> dict[str, Any]:
    """Nothing declared; requests that mirror the nothing; requests above the only limit."""
    shapes = [
        spec(),
        spec(resource_requests="limits"),
        spec({"cpu": 1}, resource_requests={"cpu": 4, "memory_mib": 8192}),
    ]
    return {"ids": [await start_and_stop(shape) for shape in shapes]}


async def opensandbox_retried() -> dict[str, Any]:
    """The control plane is overloaded twice, then creates."""
    _overload(TRIES - 1)
    return {"ids": [await start_and_stop(spec({"cpu": 1}))]}


async def opensandbox_exhausted() -> dict[str, Any]:
    """The control plane is overloaded at every try."""
    _overload(TRIES)
    try:
        await start_and_stop(spec({"cpu": 1}))
    except SandboxApiException as error:
        return {"raised": repr(error)}
    return {}


def _overload(times: int) -> None:
    fault = {"route": "create", "status": 503, "times": times}
    httpx.post(f"{os.environ['OPEN_SANDBOX_DOMAIN']}/_control/faults", json=fault).raise_for_status()


SCENARIOS = (opensandbox, opensandbox_limits, opensandbox_defaults, opensandbox_retried, opensandbox_exhausted)
