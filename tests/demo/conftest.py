"""A simulated deployment in the test's own event loop, and a client that knows its key."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import aiohttp
import pytest

from sandgauge_demo.deployment import API_KEY_HEADER, DeploymentSettings, SimulatedOpenSandbox

API_KEY = "invented-key"

StartOsb = Callable[..., Awaitable[SimulatedOpenSandbox]]


@pytest.fixture
async def start_osb() -> AsyncIterator[StartOsb]:
    """Start deployments; readings do not block unless asked to."""
    async with AsyncExitStack() as stack:

        async def start(**settings) -> SimulatedOpenSandbox:
            chosen = {"api_key": API_KEY, "metrics_delay_s": 0.0, **settings}
            return await stack.enter_async_context(SimulatedOpenSandbox(DeploymentSettings(**chosen)))

        yield start


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that sends the key with every request."""
    async with aiohttp.ClientSession(headers={API_KEY_HEADER: API_KEY}) as session:
        yield session
