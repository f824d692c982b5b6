"""The provider reads real sandboxes of a real control plane, directly and through its proxy."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from sandgauge_poller.reading.provider import SampleReading, SandboxState
from sandgauge_schemas.names import ErrorType
from support.busy_machine import beside_timer
from support.opensandbox_server import OpenSandboxServer

pytestmark = pytest.mark.integration


@pytest.fixture
def sandbox_id(opensandbox_server: OpenSandboxServer):
    sandbox_id = opensandbox_server.create("500m", "128Mi")
    yield sandbox_id
    opensandbox_server.request("DELETE", f"/v1/sandboxes/{sandbox_id}")


@pytest.fixture
def timeout_s() -> float:
    """How long a reading may take: what is expected to answer may take its time on a busy machine."""
    return 30.0


@pytest.fixture(params=["auto", "true", "false"])
async def provider(
    opensandbox_server: OpenSandboxServer, request, timeout_s: float
) -> AsyncIterator[OpenSandboxProvider]:
    """A provider for each way; the daemons' ports are published on the control plane's own host."""
    deployment = Deployment(
        name="real",
        endpoint=opensandbox_server.endpoint,
        api_key=opensandbox_server.api_key,
        use_server_proxy=request.param,
    )
    provider = OpenSandboxProvider(deployment, sample_timeout_s=timeout_s, allocation_timeout_s=timeout_s)
    yield provider
    await provider.close()


async def first_good_sample(provider: OpenSandboxProvider, sandbox_id: str) -> SampleReading:
    """Read until execd listens: for a moment after creation it may not."""
    async with asyncio.timeout(60):
        while (reading := await provider.read_sample(sandbox_id)).error_type is not None:
            assert reading.error_type in {ErrorType.HTTP_ERROR, ErrorType.CONNECTION, ErrorType.TIMEOUT}
            await asyncio.sleep(0.1)
    return reading


async def test_a_life_from_creation_to_deletion(opensandbox_server, provider, sandbox_id):
    status = await provider.read_status(sandbox_id)
    assert status.state is SandboxState.RUNNING
    assert status.expires_at_ns is not None
    assert status.expires_at_ns > status.window.end_ns

    allocation = await provider.read_allocation(sandbox_id)
    assert allocation.error_type is None
    assert [component.limits.cpu for component in allocation.allocation.components] == [0.5]
    assert [component.limits.memory_mib for component in allocation.allocation.components] == [128]
    assert allocation.allocation.designator is not None
    assert allocation.allocation.designator.scope == opensandbox_server.endpoint

    sample = await first_good_sample(provider, sandbox_id)
    again = await provider.read_sample(sandbox_id)
    for reading in (sample, again):
        assert reading.usage is not None
        assert reading.usage.timestamp_ms is not None
        # It is told at the beginning of the second that the daemon measures, however long the way there and back.
        told_ns, millisecond = reading.usage.timestamp_ms * 10**6, 10**6
        assert reading.window.start_ns - millisecond < told_ns <= reading.window.end_ns - 1000 * millisecond

    opensandbox_server.delete(sandbox_id)
    assert (await provider.read_status(sandbox_id)).state is SandboxState.NOT_FOUND
    assert (await provider.read_allocation(sandbox_id)).error_type is ErrorType.NOT_FOUND
    # Through the proxy a 404 may be the sandbox's own word, so only the way to a direct read tells.
    gone = {ErrorType.NOT_FOUND, ErrorType.CONNECTION, ErrorType.HTTP_ERROR}
    assert (await provider.read_sample(sandbox_id)).error_type in gone


@pytest.mark.parametrize("timeout_s", [2.0])
async def test_a_paused_sandbox_costs_no_more_than_its_bound(opensandbox_server, provider, sandbox_id, timeout_s):
    await first_good_sample(provider, sandbox_id)
    opensandbox_server.request("POST", f"/v1/sandboxes/{sandbox_id}/pause").raise_for_status()
    reading, later_s = await beside_timer(timeout_s, provider.read_sample(sandbox_id))
    assert reading.error_type is ErrorType.TIMEOUT
    assert later_s == pytest.approx(0.0, abs=0.5)
    assert (reading.window.end_ns - reading.window.start_ns) / 1e9 >= 1.99
    assert (await provider.read_status(sandbox_id)).state is SandboxState.PAUSED
    opensandbox_server.request("POST", f"/v1/sandboxes/{sandbox_id}/resume").raise_for_status()
    assert (await first_good_sample(provider, sandbox_id)).usage is not None
