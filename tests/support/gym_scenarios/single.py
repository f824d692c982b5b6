"""Sandboxes one by one, on the fake provider."""

import asyncio
from typing import Any

from nemo_gym.sandbox.api import AsyncSandbox
from nemo_gym.sandbox.providers import SandboxSpec, create_provider, register_provider
from nemo_gym.sandbox.providers.base import SandboxCreateError

from support.gym_scenarios.fake_provider import NAME, SPEC, FakeProvider

FULL = "full:1"


async def fake_ok() -> dict[str, Any]:
    """Start, exec, stop."""
    async with AsyncSandbox(FakeProvider(), SandboxSpec(image="ubuntu:22.04", resources={"cpu": 0.5, "gpu": 1})) as one:
        started = await one.start()
        result = await one.exec("true")
    return {"same": started is one, "return_code": result.return_code}


async def fake_fail() -> dict[str, Any]:
    """The provider cannot create it."""
    try:
        await AsyncSandbox(FakeProvider(refuses={FULL}), SandboxSpec(image=FULL)).start()
    except SandboxCreateError as error:
        return {"raised": repr(error)}
    return {}


async def cancelled_create() -> dict[str, Any]:
    """The caller gives up while the provider is at work."""
    provider = FakeProvider(hangs=True)
    start = asyncio.create_task(AsyncSandbox(provider, SPEC).start())
    await provider.creating.wait()
    start.cancel()
    try:
        await start
    except asyncio.CancelledError:
        return {"cancelled": start.cancelled()}
    return {}


async def start_again() -> dict[str, Any]:
    """The same object is started again after a failure, with another image."""
    sandbox = AsyncSandbox(FakeProvider(refuses={FULL}))
    try:
        await sandbox.start(SandboxSpec(image=FULL))
    except SandboxCreateError as error:
        raised = repr(error)
    await sandbox.start(SandboxSpec(image="ubuntu:22.04", resources={"cpu": 1}))
    await sandbox.stop()
    return {"raised": raised}


async def refused_start() -> dict[str, Any]:
    """Starts that Gym itself refuses, so that the provider is never called: no spec, started before, stopped."""
    raised = []
    sandbox = AsyncSandbox(FakeProvider())
    for step in (sandbox.start, lambda: sandbox.start(SPEC), sandbox.start, sandbox.stop, sandbox.start):
        try:
            await step()
        except (RuntimeError, ValueError) as error:
            raised.append(repr(error))
    return {"raised": raised}


async def borrowed() -> dict[str, Any]:
    """A second object is connected to a sandbox, and both stop it."""
    provider = FakeProvider()
    owner = await AsyncSandbox(provider, SPEC).start()
    borrower = await AsyncSandbox.connect(await owner.serialize(), provider=provider)
    await borrower.exec("true")
    await borrower.stop()
    await owner.stop()
    return {}


async def direct() -> dict[str, Any]:
    """A caller that has Gym make a provider, and goes to that itself, past AsyncSandbox."""
    register_provider(NAME, FakeProvider, override=True)
    provider = create_provider({NAME: {}})
    handle = await provider.create(SandboxSpec(image="ubuntu:22.04", resources={"memory_mib": 512}))
    await provider.close(handle)
    return {"sandbox_id": handle.sandbox_id}


async def declared_disk() -> dict[str, Any]:
    """Disk is all that is asked for."""
    async with AsyncSandbox(FakeProvider(), SandboxSpec(image="ubuntu:22.04", resources={"disk_gib": 10})) as sandbox:
        await sandbox.start()
    return {}


SCENARIOS = (fake_ok, fake_fail, cancelled_create, start_again, refused_start, borrowed, direct, declared_disk)
