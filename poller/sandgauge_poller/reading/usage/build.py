"""From the configuration to usage sources."""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from sandgauge_poller.config import Usage
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.usage import DockerUsage
from sandgauge_poller.reading.kubernetes.access import load_credentials
from sandgauge_poller.reading.kubernetes.source import KubernetesSettings, KubernetesUsage
from sandgauge_poller.reading.tls import client_context
from sandgauge_poller.reading.usage.loop import PlacedSource
from sandgauge_poller.reading.usage.source import UsageSource


@asynccontextmanager
async def open_sources(usages: Iterable[Usage], clock: Clock) -> AsyncIterator[list[PlacedSource]]:
    """Give a source for each entry, and close them; raises OSError where its credentials cannot be used."""
    async with AsyncExitStack() as stack:
        placed = []
        for usage in usages:
            source = _source(usage, clock)
            stack.push_async_callback(source.close)
            placed.append(PlacedSource(source, frozenset(usage.deployments)))
        yield placed


def _source(usage: Usage, clock: Clock) -> UsageSource:
    if usage.kind == "kubernetes":
        credentials = load_credentials(usage.kubeconfig, usage.context, os.environ, clock)
        settings = KubernetesSettings(interval_s=usage.interval, timeout_s=usage.timeout, pods=usage.pods)
        return KubernetesUsage(credentials, settings, clock)
    engine = Engine(usage.endpoint, client_context(usage.tls), timeout_s=usage.timeout, clock=clock)
    return DockerUsage(engine, interval_s=usage.interval, clock=clock)
