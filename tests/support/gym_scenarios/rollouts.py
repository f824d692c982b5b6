"""Rollouts of an agent server: two at the same time, and one whose sandboxes start in another process."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from nemo_gym.config_types import ROLLOUT_PATH_PREFIX
from nemo_gym.rollout_correlation import rollout_context
from nemo_gym.sandbox.api import AsyncSandbox, Sandbox
from nemo_gym.telemetry.endpoints import traced_rollout_endpoint
from opentelemetry.propagate import inject

from support.gym_scenarios.fake_provider import SPEC, FakeProvider
from support.gym_scenarios.opensandbox import spec, start_and_stop


async def rollout() -> dict[str, Any]:
    """In each of two rollouts a sandbox of its own, one in a child task and one through the blocking facade."""

    async def use_sandboxes() -> str:
        sandbox_id = await start_and_stop(spec({"cpu": 1}))
        await asyncio.create_task(_in_a_task())
        await asyncio.to_thread(_blocking)
        return sandbox_id

    rollout_ids = ("7-0", "7-1")
    sandbox_ids = await asyncio.gather(*(_roll_out(one, use_sandboxes) for one in rollout_ids))
    return {"ids": dict(zip(rollout_ids, sandbox_ids, strict=True))}


async def other_process() -> dict[str, Any]:
    """The agent calls a resources server, which starts the sandbox: with the rollout's path prefix, and without."""
    async with _resources_server() as url, httpx.AsyncClient(base_url=url) as client:

        async def post(path: str) -> Any:
            headers: dict[str, str] = {}
            inject(headers)
            return (await client.post(path, headers=headers)).raise_for_status().json()

        return {
            "with_prefix": await _roll_out("8-0", lambda: post(f"/{ROLLOUT_PATH_PREFIX}/8-0/verify")),
            "without": await _roll_out("8-1", lambda: post("/verify")),
        }


async def _roll_out(rollout_id: str, work: Callable[[], Awaitable[Any]]) -> Any:
    with rollout_context(rollout_id):
        return await traced_rollout_endpoint(work, {"nemo.gym.server.name": "swe_agent"})()


async def _in_a_task() -> None:
    async with AsyncSandbox(FakeProvider(), SPEC) as sandbox:
        await sandbox.start()


def _blocking() -> None:
    with Sandbox(FakeProvider(), SPEC) as sandbox:
        sandbox.start()


@asynccontextmanager
async def _resources_server():
    """Start the server, give its URL, and let it end by itself."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "support.gym_scenarios", "resources_server")
    server = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert server.stdin is not None
    assert server.stdout is not None
    port = (await server.stdout.readline()).decode().strip()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stdin.close()
        await server.wait()


SCENARIOS = (rollout, other_process)
