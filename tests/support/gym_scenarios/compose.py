"""Collections of services, on the fake provider."""

from pathlib import Path
from typing import Any

from nemo_gym.sandbox.adapters.docker_compose import AsyncSandboxCompose
from nemo_gym.sandbox.providers.base import SandboxCreateError

from support.gym_scenarios.fake_provider import FakeProvider


async def compose() -> dict[str, Any]:
    """Two services."""
    return await _run("compose.yaml", FakeProvider())


async def compose_failing() -> dict[str, Any]:
    """The second of two services cannot be created."""
    return await _run("compose.yaml", FakeProvider(refuses={"db:1"}))


async def compose_volume() -> dict[str, Any]:
    """A service with a shared volume, which Gym prepares with two sandboxes of its own."""
    return await _run("compose-volume.yaml", FakeProvider())


async def compose_units() -> dict[str, Any]:
    """Half a CPU and a byte more than a GiB; no CPU at all; nothing declared."""
    return await _run("compose-units.yaml", FakeProvider())


async def compose_refused() -> dict[str, Any]:
    """Memory with a unit, which Gym does not take."""
    return await _run("compose-refused.yaml", FakeProvider())


async def _run(file: str, provider: FakeProvider) -> dict[str, Any]:
    collection = AsyncSandboxCompose(provider, Path(__file__).with_name(file))
    try:
        async with collection:
            await provider.idle.wait()
            ids = {name: sandbox._handle.sandbox_id for name, sandbox in collection.services.items()}
            return {"project": collection.project, "ids": ids}
    except (SandboxCreateError, ValueError) as error:
        return {"project": collection.project, "raised": repr(error)}


SCENARIOS = (compose, compose_failing, compose_volume, compose_units, compose_refused)
