"""From the configuration to the providers of its deployments."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from sandgauge_poller.config import Config, Deployment
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.provider import DockerProvider
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from sandgauge_poller.reading.provider import Provider
from sandgauge_poller.reading.tls import client_context


@asynccontextmanager
async def open_providers(config: Config, clock: Clock) -> AsyncIterator[Mapping[str, Provider]]:
    """Give a provider for each deployment, by name, and close them; raises OSError where a certificate is lost."""
    async with AsyncExitStack() as stack:
        providers: dict[str, Provider] = {}
        for deployment in config.deployments:
            provider = providers[deployment.name] = _provider(deployment, config, clock)
            stack.push_async_callback(provider.close)
        yield providers


def _provider(deployment: Deployment, config: Config, clock: Clock) -> Provider:
    timeout_s = config.allocation.timeout
    if deployment.provider == "docker":
        engine = Engine(deployment.endpoint, client_context(deployment.tls), timeout_s=timeout_s, clock=clock)
        return DockerProvider(deployment, engine, clock=clock)
    return OpenSandboxProvider(
        deployment,
        sample_timeout_s=config.sampling.timeout,
        allocation_timeout_s=timeout_s,
        clock=clock,
    )
