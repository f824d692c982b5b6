"""Rollouts whose sandboxes live until they have been read."""

import asyncio
import os
from typing import Any

import httpx
from nemo_gym.rollout_correlation import rollout_context
from nemo_gym.sandbox.api import AsyncSandbox
from nemo_gym.telemetry.endpoints import traced_rollout_endpoint

from support.gym_scenarios.compose import compose_failing
from support.gym_scenarios.opensandbox import provider, spec

READINGS = 2
# Beyond what any reading takes on a busy machine; in time this program would fail without it.
_TIMEOUT_S = 30.0


async def read_rollouts() -> dict[str, Any]:
    """Two rollouts with a sandbox each, and one whose collection fails at its second service."""

    async def use_sandbox() -> str:
        asked = spec({"cpu": 2, "memory_mib": 512}, resource_requests={"cpu": 0.5, "memory_mib": 256})
        async with AsyncSandbox(provider(), asked) as sandbox:
            await sandbox.start()
            await _until_read(sandbox._handle.sandbox_id)
            return sandbox._handle.sandbox_id

    async def roll_out(rollout_id: str, work: Any) -> Any:
        with rollout_context(rollout_id):
            return await traced_rollout_endpoint(work, {"nemo.gym.server.name": "swe_agent"})()

    sandboxes = {rollout_id: roll_out(rollout_id, use_sandbox) for rollout_id in ("9-0", "9-1")}
    ids = dict(zip(sandboxes, await asyncio.gather(*sandboxes.values()), strict=True))
    collection = await roll_out("9-2", compose_failing)
    return {"ids": ids, "project": collection["project"]}


async def _until_read(sandbox_id: str) -> None:
    """Wait until the sandbox's daemon was asked often enough."""
    query = {"route": "execd", "sandbox_id": sandbox_id, "at_least": READINGS, "timeout_s": _TIMEOUT_S}
    url = f"{os.environ['OPEN_SANDBOX_DOMAIN']}/_control/requests/count"
    async with httpx.AsyncClient(timeout=_TIMEOUT_S + 1) as client:
        answer = await client.get(url, params=query)
    assert answer.json()["count"] >= READINGS


SCENARIOS = (read_rollouts,)
