"""Asking every deployment for one sandbox, as a poller would, and recording nothing."""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass

from sandgauge_poller.config import Config, Deployment
from sandgauge_poller.reading.build import open_providers
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.provider import AllocationReading, Provider, SampleReading, SandboxState, StatusReading
from sandgauge_poller.reading.usage.build import open_sources
from sandgauge_poller.reading.usage.loop import PlacedSource
from sandgauge_poller.reading.usage.source import UsageAnswer, UsageTarget

_OVER = (SandboxState.PAUSED, SandboxState.STOPPING, SandboxState.TERMINATED, SandboxState.FAILED)
"""States in which nothing inside answers."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a deployment says of the sandbox: only its status where it has none, or did not say."""

    deployment: Deployment
    status: StatusReading
    allocation: AllocationReading | None = None
    sample: SampleReading | None = None
    usage: tuple[UsageAnswer, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether the deployment knows the sandbox."""
        return self.status.state not in {None, SandboxState.NOT_FOUND}


async def ask(config: Config, sandbox_id: str) -> list[Found]:
    """Ask all deployments at the same time; raises OSError where a certificate or credentials cannot be used."""
    async with (
        open_providers(config, SYSTEM_CLOCK) as providers,
        open_sources(config.usage_sources, SYSTEM_CLOCK) as sources,
    ):
        questions = (
            _ask(deployment, providers[deployment.name], sources, sandbox_id) for deployment in config.deployments
        )
        return await asyncio.gather(*questions)


async def _ask(deployment: Deployment, provider: Provider, sources: Iterable[PlacedSource], sandbox_id: str) -> Found:
    status = await provider.read_status(sandbox_id)
    if status.state in {None, SandboxState.NOT_FOUND}:
        return Found(deployment, status)
    allocation = await provider.read_allocation(sandbox_id)
    if status.state in _OVER:
        return Found(deployment, status, allocation)
    sample = await provider.read_sample(sandbox_id) if deployment.execd else None
    usage = [answer for placed in sources for answer in await _usage(placed, deployment, allocation, sandbox_id)]
    return Found(deployment, status, allocation, sample, tuple(usage))


async def _usage(
    placed: PlacedSource, deployment: Deployment, allocation: AllocationReading, sandbox_id: str
) -> list[UsageAnswer]:
    """Sweep one source for the sandbox alone; nothing where the source could not see it."""
    designator = allocation.allocation.designator
    is_elsewhere = bool(placed.deployments) and deployment.name not in placed.deployments
    if is_elsewhere or designator is None or not placed.source.serves(designator):
        return []
    async with aclosing(placed.source.sweep([UsageTarget(sandbox_id, designator)])) as sweep:
        return [answer async for _, answer in sweep]
