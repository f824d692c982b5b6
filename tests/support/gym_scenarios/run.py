"""The program that runs scenarios."""

import asyncio
import json
import time

from support.gym_scenarios import compose, docker_rollouts, opensandbox, read_rollouts, rollouts, single

SCENARIOS = {
    scenario.__name__: scenario
    for module in (single, opensandbox, compose, rollouts, read_rollouts, docker_rollouts)
    for scenario in module.SCENARIOS
}


def main(*names: str) -> None:
    """Run each and print what it saw, with the time around it: spans that began within are its own."""
    for name in names:
        started_ns = time.time_ns()
        seen = asyncio.run(SCENARIOS[name]())
        line = {"scenario": name, "started_ns": started_ns, "ended_ns": time.time_ns(), "seen": seen}
        print(json.dumps(line), flush=True)
