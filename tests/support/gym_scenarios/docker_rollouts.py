"""Rollouts on Gym's own docker provider, whose command line takes the daemon from `DOCKER_HOST`.

`SCENARIO_IMAGE` is an image with busybox, `SCENARIO_SECRET` what every sandbox has in its environment.
"""

import asyncio
import os
import re
import time
from typing import Any

from nemo_gym.rollout_correlation import rollout_context
from nemo_gym.sandbox.api import AsyncSandbox
from nemo_gym.sandbox.providers import SandboxSpec
from nemo_gym.telemetry.endpoints import traced_rollout_endpoint

BUSY_S = 10
LEFT_S = 8
_TIME = re.compile(r"(\d+)m([\d.]+)s")
"""As the shell writes the CPU time of its children, of user and system."""


def _sandbox(**more: Any) -> AsyncSandbox:
    environment = {"TOKEN": os.environ["SCENARIO_SECRET"]}
    return AsyncSandbox({"docker": {}}, SandboxSpec(image=os.environ["SCENARIO_IMAGE"], env=environment, **more))


async def docker_rollouts() -> dict[str, Any]:
    """In one rollout a sandbox that is busy up to its limits and then stopped, in the other one that is left alone."""
    seen: dict[str, Any] = {}

    async def use_sandbox() -> str:
        async with _sandbox(resources={"cpu": 0.5, "memory_mib": 128}) as sandbox:
            await sandbox.start()
            done = await sandbox.exec(f"busybox timeout {BUSY_S} sh -c 'while :; do :; done'; times")
            seen["busy_until_s"] = time.time()
            of_children = done.stdout.splitlines()[-1]
            seen["busy_s"] = sum(float(part) * 60 + float(rest) for part, rest in _TIME.findall(of_children))
            return sandbox._handle.sandbox_id

    async def leave_sandbox() -> str:
        sandbox = await _sandbox(ttl_s=LEFT_S).start()
        return sandbox._handle.sandbox_id

    async def roll_out(rollout_id: str, work: Any) -> Any:
        with rollout_context(rollout_id):
            return await traced_rollout_endpoint(work, {"nemo.gym.server.name": "swe_agent"})()

    works = {"9-0": use_sandbox, "9-1": leave_sandbox}
    ids = await asyncio.gather(*(roll_out(rollout_id, work) for rollout_id, work in works.items()))
    return {"ids": dict(zip(works, ids, strict=True)), **seen}


SCENARIOS = (docker_rollouts,)
