"""`python -m sandgauge_demo.gym_fleet`: one run after another, overlapping, until it is told to end."""

import argparse
import asyncio
import signal
import sys
from datetime import datetime

import aiohttp

import sandgauge_emitter
from sandgauge_demo.gym import run
from sandgauge_demo.scenario import fleet_rollouts

_SECONDS_BETWEEN_RUNS = 15.0
"""Shorter than a run takes, so that there are always sandboxes of more than one."""


def main() -> None:
    """Start runs until SIGINT or SIGTERM; one that breaks off, since its deployment is away, ends no other."""
    parser = argparse.ArgumentParser(prog="python -m sandgauge_demo.gym_fleet", description=__doc__)
    parser.add_argument("--opensandbox", required=True, metavar="URL", help="simulated deployment with --control")
    parser.add_argument("--collector", required=True, metavar="URL", help="base URL of an OTLP/HTTP receiver")
    chosen = parser.parse_args()
    sandgauge_emitter.configure(enabled=True, endpoint=chosen.collector)
    asyncio.run(_fleet(chosen.opensandbox, chosen.collector))


async def _fleet(opensandbox: str, collector: str) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    runs: set[asyncio.Task[None]] = set()
    while not ended.is_set():
        task = asyncio.create_task(_run(opensandbox, collector))
        runs.add(task)
        task.add_done_callback(runs.discard)
        try:
            async with asyncio.timeout(_SECONDS_BETWEEN_RUNS):
                await ended.wait()
        except TimeoutError:
            continue
    for task in runs:
        task.cancel()
    await asyncio.gather(*runs, return_exceptions=True)


async def _run(opensandbox: str, collector: str) -> None:
    run_id = f"demo-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    print(f"run {run_id} has begun", flush=True)  # noqa: T201 - the log of this process
    try:
        await run(fleet_rollouts(), opensandbox=opensandbox, collector=collector, run_id=run_id)
    except* (aiohttp.ClientError, TimeoutError) as broken:
        print(f"run {run_id} broke off: {broken.exceptions[0]}", file=sys.stderr, flush=True)  # noqa: T201 - its log


if __name__ == "__main__":
    main()
