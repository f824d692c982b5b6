"""Sandboxes in children of a process that has had sandboxes itself; each asks for a number of CPUs of its own."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from nemo_gym.sandbox.api import AsyncSandbox
from nemo_gym.sandbox.providers import SandboxSpec

from support.gym_scenarios.fake_provider import FakeProvider

WORKERS, TASKS = 2, 6


def start_one(cpu: int) -> int:
    """Start and stop one sandbox in an event loop of its own."""

    async def start() -> None:
        async with AsyncSandbox(FakeProvider(), SandboxSpec(image="ubuntu:22.04", resources={"cpu": cpu})) as sandbox:
            await sandbox.start()

    asyncio.run(start())
    return cpu


def fork(end: str) -> None:
    """Fork after a sandbox; the child has one, and ends by `exit` or is killed two seconds later."""
    start_one(1)
    child = os.fork()
    if child == 0:
        start_one(2)
        if end == "exit":
            sys.exit()
        os.read(os.pipe()[0], 1)  # for ever
    if end == "kill":
        # The time within which a child's spans have left it, however it ends.
        subprocess.run(("sleep", "2"), check=True)
        os.kill(child, 9)
    os.waitpid(child, 0)
    start_one(3)


def pool(method: str) -> None:
    """Have a pool of workers start sandboxes."""
    start_one(100)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(WORKERS, context) as executor:
        assert sorted(executor.map(start_one, range(TASKS))) == list(range(TASKS))


def multiprocessing_pool(method: str) -> None:
    """Have a pool of `multiprocessing` itself start sandboxes; its workers are terminated."""
    start_one(100)
    with multiprocessing.get_context(method).Pool(WORKERS) as workers:
        assert workers.map(start_one, range(TASKS)) == list(range(TASKS))
        workers.close()
        workers.join()


def child_process() -> None:
    """Start another Python, as a server is started, which has a sandbox."""
    start_one(1)
    subprocess.run((sys.executable, "-m", "support.gym_scenarios", "processes", "start_one", "2"), check=True)


def main(program: str, *arguments: str) -> None:
    """Run one of the programs above, and print the time at its end."""
    if program == "start_one":
        start_one(int(arguments[0]))
    else:
        globals()[program](*arguments)
    print(time.time())
