"""What reading usage of containers costs: the poller by one-shot stats against execd readings, and Docker's machine.

The first table is the poller's own code up to the numbers, the servers being processes of their own, and the stand-in
for Docker one that samples directly, as 24.0.7 and newer do. The second is the daemon that is installed here, with idle
containers: CPU of the poller, and of the daemon with all that belongs to it. CPU, not time, so that a busy machine
changes it little, and all take turns. Run it by `make bench`.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from sandgauge_poller import service
from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.usage import DockerUsage
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from sandgauge_poller.reading.usage.source import UsageTarget
from sandgauge_schemas.placement import Identity
from support.docker_daemon import DockerDaemon, private_docker_daemon
from support.sandbox_images import SANDBOX_IMAGE, import_sandbox_images
from support.simulated_osb import osb_in_process
from support.stub_engine import StubContainer, StubEngine
from support.waiting import wait_until

STATS, EXECD = "Docker, one-shot stats", "execd, spread as the poller does"
INTERVAL_S = 10.0
"""The poller spreads its readings over an interval, so that each of them wakes it up: a thousand in ten seconds."""

AT_ONCE = 100
"""A crowd shares each awakening: no reading of a daemon can cost less."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, default=300)
    parser.add_argument("--containers", type=int, default=50, help="of the real daemon; 0 leaves it out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        asyncio.run(serve(chosen.serve, chosen.sandboxes))
        return
    service._calm_garbage_collector()  # as the poller does
    with (
        stub_in_process(chosen.sandboxes) as endpoint,
        osb_in_process(["--endpoint-form", "gateway-path", "--metrics-delay", "0.2"]) as deployment,
    ):
        ids = [deployment.osb.create(limits={"cpu": "500m"}) for _ in range(chosen.sandboxes)]
        costs = asyncio.run(measure(endpoint, chosen.sandboxes, deployment.osb.url, ids, chosen.rounds))
    print(f"| reading {len(ids)} sandboxes once | poller's CPU, ms a sandbox | it / execd |\n|---|---|---|")
    for name, seconds in costs.items():
        ratio = statistics.median(seconds) / statistics.median(costs[EXECD])
        print(f"| {name} | {statistics.median(seconds) * 1e3 / len(ids):.3f} | {ratio:.2f} |")
    if chosen.containers:
        with tempfile.TemporaryDirectory() as folder, private_docker_daemon(Path(folder)) as daemon:
            import_sandbox_images(daemon)
            asyncio.run(measure_real(daemon, chosen.containers, chosen.rounds))


async def measure(endpoint: str, count: int, osb: str, ids: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each way, round by round."""
    source, targets = usage_of(endpoint), [target(found) for found in containers(count)]
    deployment = Deployment(name="bench", endpoint=osb, max_requests_per_second=1e6)
    provider = OpenSandboxProvider(deployment, sample_timeout_s=10.0, allocation_timeout_s=10.0)

    async def read_crowded() -> None:
        for at in range(0, len(ids), AT_ONCE):
            readings = await asyncio.gather(*map(provider.read_sample, ids[at : at + AT_ONCE]))
            assert {reading.error_type for reading in readings} == {None}

    async def read_spread() -> None:
        async with asyncio.TaskGroup() as readings:
            for sandbox_id in ids:
                readings.create_task(provider.read_sample(sandbox_id))
                await asyncio.sleep(INTERVAL_S / 1000)

    ways = {STATS: lambda: sweep(source, targets), EXECD: read_spread, "execd, a hundred at once": read_crowded}
    try:
        for way in ways.values():
            await way()  # endpoints are known and connections are there, as in a poller that has been running
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for name, way in [*ways.items()] * rounds:
            costs[name].append(await cost(way))
    finally:
        await source.close()
        await provider.close()
    return costs


async def measure_real(daemon: DockerDaemon, count: int, rounds: int) -> None:
    """Print what sweeps over idle containers of a real daemon cost."""
    targets = []
    for number in range(count):
        label = f"opensandbox.io/id=s-{number}"
        id_ = daemon.docker("run", "--detach", "--net", "none", "--label", label, SANDBOX_IMAGE, "sleep", "3600")
        targets.append(UsageTarget(f"s-{number}", Identity("docker-container", "http://osb", id_[:12])))
    source = usage_of(daemon.host)
    host = psutil.Process(daemon.process_id)
    poller, machine, took = [], [], []
    try:
        await sweep(source, targets)
        for _ in range(rounds):
            await asyncio.sleep(2)  # an engine before 24.0.7 lets its collector rest in between
            before, began = cpu_s(host), time.monotonic()
            poller.append(await cost(lambda: sweep(source, targets)))
            took.append(time.monotonic() - began)
            machine.append(cpu_s(host) - before)
        version = source._engine.version
    finally:
        await source.close()
    print(f"\n{count} idle containers on Docker {version.release}: ", end="")
    poller_ms, machine_ms = (statistics.median(found) * 1e3 / count for found in (poller, machine))
    print(f"poller {poller_ms:.2f} ms and machine {machine_ms:.2f} ms of CPU a sandbox,", end=" ")
    print(f"{statistics.median(took):.2f} s a sweep")


def usage_of(endpoint: str) -> DockerUsage:
    """Return the poller's own source."""
    engine = Engine(endpoint, None, timeout_s=10.0, clock=SYSTEM_CLOCK)
    return DockerUsage(engine, interval_s=10.0, clock=SYSTEM_CLOCK)


async def sweep(source: DockerUsage, targets: Sequence[UsageTarget]) -> None:
    """Read all once."""
    answers = [answer async for _, answer in source.sweep(targets)]
    assert [answer.error_type for answer in answers] == [None] * len(targets)


async def cost(action: Callable[[], Awaitable[None]]) -> float:
    """Return the CPU seconds of this process, all threads, while the action runs."""
    before = time.process_time()
    await action()
    return time.process_time() - before


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds of a process and all below it so far."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        times = each.cpu_times()
        total += times.user + times.system
    return total


def containers(count: int) -> list[StubContainer]:
    """Return what the stand-in serves."""
    return [StubContainer(f"{number:012x}" + "0" * 52, f"s-{number}") for number in range(count)]


def target(found: StubContainer) -> UsageTarget:
    """Return what the poller asks for, with the digits that OpenSandbox shows."""
    return UsageTarget(found.sandbox_id or "", Identity("docker-container", "http://osb", found.id[:12]))


async def serve(socket: Path, count: int) -> None:
    """Be a Docker daemon, until killed."""
    async with StubEngine(socket, containers=containers(count)):
        await asyncio.Event().wait()


@contextmanager
def stub_in_process(count: int) -> Iterator[str]:
    """Run the stand-in in a process of its own; give its endpoint."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder, "docker.sock")
        command = [sys.executable, __file__, "--serve", str(socket), "--sandboxes", str(count)]
        with subprocess.Popen(command) as process:
            try:
                wait_until(socket.exists, timeout_s=20, what="a stand-in for Docker")
                yield f"unix://{socket}"
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
