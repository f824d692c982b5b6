"""`python -m sandgauge_demo.gym_run`: a run of several rollouts, as NeMo Gym with the emitter would make it."""

import argparse
import asyncio

import sandgauge_emitter
from sandgauge_demo.gym import run
from sandgauge_demo.scenario import planned_rollouts


def main() -> None:
    """Run every rollout once, side by side; the exit code is 1 when the simulated deployment cannot be reached."""
    parser = argparse.ArgumentParser(prog="python -m sandgauge_demo.gym_run", description=__doc__)
    parser.add_argument("--opensandbox", required=True, metavar="URL", help="simulated deployment with --control")
    parser.add_argument("--collector", required=True, metavar="URL", help="base URL of an OTLP/HTTP receiver")
    parser.add_argument("--run-id", required=True, metavar="ID")
    parser.add_argument("--rollouts", type=int, required=True, metavar="COUNT")
    chosen = parser.parse_args()
    sandgauge_emitter.configure(enabled=True, endpoint=chosen.collector)
    plan = planned_rollouts(chosen.rollouts)
    asyncio.run(run(plan, opensandbox=chosen.opensandbox, collector=chosen.collector, run_id=chosen.run_id))


if __name__ == "__main__":
    main()
