"""What reading usage of containers costs: the poller by one-shot stats against execd readings, and Docker's machine.

One table of one run, in which all ways take turns: the poller's own code up to the numbers, the servers being processes
of their own. One Docker is a stand-in that samples directly, as 24.0.7 and newer do; the other is the daemon that is
installed here, or that of a Debian suite, with idle containers: there the CPU of the daemon with all that belongs to it
stands beside. CPU, not time, so that a busy machine changes it little. Run it by `make bench-parts`.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandgauge_poller.config import Deployment
from sandgauge_poller.process import calm_garbage_collector
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.usage import DockerUsage
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from sandgauge_poller.reading.usage.source import UsageTarget
from sandgauge_schemas.placement import Identity
from support.docker_daemon import DockerDaemon, private_docker_daemon
from support.docker_engines import path_with_docker_of
from support.sandbox_images import SANDBOX_IMAGE, import_sandbox_images
from support.simulated_osb import SimulatedOsb, osb_in_process
from support.stub_engine import StubContainer, StubEngine
from support.waiting import wait_until

EXECD = "execd, spread as the poller does"
INTERVAL_S = 10.0
"""The poller spreads its readings over an interval, so that each of them wakes it up: a thousand in ten seconds."""

AT_ONCE = 100
"""A crowd shares each awakening: no reading of a daemon can cost less."""


@dataclass(frozen=True, slots=True)
class IdleContainers:
    """Containers that do nothing on a real daemon, and what the poller asks for."""

    daemon: DockerDaemon
    targets: list[UsageTarget]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to read `count` sandboxes once, and the process below which lives all of a Docker daemon."""

    name: str
    read: Callable[[], Awaitable[None]]
    count: int
    machine: psutil.Process | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one turn: CPU milliseconds a sandbox of the poller and of Docker's machine, and seconds it took."""

    poller_ms: float
    machine_ms: float
    took_s: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, default=300, help="of execd, and of the stand-in for Docker")
    parser.add_argument("--containers", type=int, default=50, help="of the real daemon; 0 leaves it out")
    parser.add_argument("--debian-suite", help="whose docker.io is the real daemon, such as forky; fetched once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        asyncio.run(serve(chosen.serve, chosen.sandboxes))
        return
    if chosen.debian_suite is not None:
        os.environ["PATH"] = path_with_docker_of(chosen.debian_suite)
    calm_garbage_collector()  # as the poller does
    with ExitStack() as servers:
        stub = servers.enter_context(stub_in_process(chosen.sandboxes))
        arguments = ["--endpoint-form", "gateway-path", "--metrics-delay", "0.2"]
        osb = servers.enter_context(osb_in_process(arguments)).osb
        ids = [osb.create(limits={"cpu": "500m"}) for _ in range(chosen.sandboxes)]
        docker = None
        if chosen.containers:
            folder = Path(servers.enter_context(tempfile.TemporaryDirectory()))
            daemon = servers.enter_context(private_docker_daemon(folder))
            docker = servers.enter_context(idle_containers(daemon, chosen.containers))
        costs = asyncio.run(measure(stub, osb, ids, docker, chosen.rounds))
    print_table(costs)


def print_table(costs: dict[Way, list[Cost]]) -> None:
    """Print medians; the machine's is a mean, since the kernel tells each process's CPU in steps of 10 ms."""
    poller = {way: statistics.median(cost.poller_ms for cost in turns) for way, turns in costs.items()}
    execd = next(ms for way, ms in poller.items() if way.name == EXECD)
    print("| reading sandboxes once | poller's CPU, ms a sandbox | it / execd | Docker's machine, ms | s a round |")
    print("|---|---|---|---|---|")
    for way, turns in costs.items():
        machine = f"{statistics.mean(cost.machine_ms for cost in turns):.2f}" if way.machine else ""
        took = statistics.median(cost.took_s for cost in turns)
        print(f"| {way.count} by {way.name} | {poller[way]:.3f} | {poller[way] / execd:.2f} | {machine} | {took:.2f} |")


async def measure(
    stub: str, osb: SimulatedOsb, ids: Sequence[str], docker: IdleContainers | None, rounds: int
) -> dict[Way, list[Cost]]:
    """Return what each way costs, turn by turn."""
    async with AsyncExitStack() as opened:
        stand_in = await opened.enter_async_context(usage_of(stub))
        stubs = [target(found) for found in containers(len(ids))]
        ways = [Way("Docker one-shot, stand-in", lambda: sweep(stand_in, stubs), len(ids))]
        if docker is not None:
            real = await opened.enter_async_context(usage_of(docker.daemon.host))
            release = docker.daemon.docker("version", "--format", "{{.Server.Version}}")
            machine = psutil.Process(docker.daemon.process_id)
            targets = docker.targets
            ways.append(Way(f"Docker one-shot, {release}", lambda: sweep(real, targets), len(targets), machine))
        deployment = Deployment(name="bench", endpoint=osb.url, max_requests_per_second=1e6)
        provider = OpenSandboxProvider(deployment, sample_timeout_s=10.0, allocation_timeout_s=10.0)
        opened.push_async_callback(provider.close)
        ways += [
            Way(EXECD, lambda: read_spread(provider, ids), len(ids)),
            Way("execd, a hundred at once", lambda: read_crowded(provider, ids), len(ids)),
        ]
        for way in ways:
            await way.read()  # endpoints are known and connections are there, as in a poller that has been running
        costs: dict[Way, list[Cost]] = {way: [] for way in ways}
        for way in ways * rounds:
            costs[way].append(await cost(way))
    return costs


async def read_spread(provider: OpenSandboxProvider, ids: Sequence[str]) -> None:
    """Read all execd, each at a time of its own."""
    async with asyncio.TaskGroup() as readings:
        for sandbox_id in ids:
            readings.create_task(provider.read_sample(sandbox_id))
            await asyncio.sleep(INTERVAL_S / 1000)


async def read_crowded(provider: OpenSandboxProvider, ids: Sequence[str]) -> None:
    """Read all execd, crowd by crowd."""
    for at in range(0, len(ids), AT_ONCE):
        readings = await asyncio.gather(*map(provider.read_sample, ids[at : at + AT_ONCE]))
        assert {reading.error_type for reading in readings} == {None}


@contextmanager
def idle_containers(daemon: DockerDaemon, count: int) -> Iterator[IdleContainers]:
    """Run containers and remove them."""
    import_sandbox_images(daemon)

    def start(number: int) -> str:
        label = f"opensandbox.io/id=s-{number}"
        return daemon.docker("run", "--detach", "--net", "none", "--label", label, SANDBOX_IMAGE, "sleep", "36000")

    with ThreadPoolExecutor(max_workers=4) as pool:
        ids = list(pool.map(start, range(count)))
        try:
            identities = [Identity("docker-container", "http://osb", id_[:12]) for id_ in ids]
            yield IdleContainers(
                daemon, [UsageTarget(f"s-{number}", identity) for number, identity in enumerate(identities)]
            )
        finally:
            # One command for all would take longer than a command may.
            list(pool.map(lambda id_: daemon.docker("rm", "--force", id_), ids))


@asynccontextmanager
async def usage_of(endpoint: str) -> AsyncIterator[DockerUsage]:
    """Open the poller's own source."""
    engine = Engine(endpoint, None, timeout_s=10.0, clock=SYSTEM_CLOCK)
    source = DockerUsage(engine, interval_s=10.0, clock=SYSTEM_CLOCK)
    try:
        yield source
    finally:
        await source.close()


async def sweep(source: DockerUsage, targets: Sequence[UsageTarget]) -> None:
    """Read all once."""
    answers = [answer async for _, answer in source.sweep(targets)]
    assert {answer.error_type for answer in answers} == {None}, answers[0]


async def cost(way: Way) -> Cost:
    """Take one turn, and return the CPU of this process, all threads, and of the machine meanwhile."""
    machine_s = cpu_s(way.machine) if way.machine else 0.0
    poller_s, began = time.process_time(), time.monotonic()
    await way.read()
    poller_s, took_s = time.process_time() - poller_s, time.monotonic() - began
    machine_s = cpu_s(way.machine) - machine_s if way.machine else 0.0
    return Cost(poller_s * 1e3 / way.count, machine_s * 1e3 / way.count, took_s)


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
