"""What reading costs the poller: sandboxes by one list of pod metrics, against readings of their own daemons.

Both by the poller's own code and up to the numbers, without what becomes of them; the servers are processes of their
own. CPU is this process's, so that a busy machine changes it little, and all take turns. Run it by `make bench-parts`.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from yarl import URL

from sandgauge_poller.config import Deployment
from sandgauge_poller.process import calm_garbage_collector
from sandgauge_poller.reading.kubernetes.credentials import Credentials
from sandgauge_poller.reading.kubernetes.source import KubernetesSettings, KubernetesUsage
from sandgauge_poller.reading.opensandbox.provider import OpenSandboxProvider
from sandgauge_poller.reading.usage.source import UsageTarget
from sandgauge_schemas.placement import Identity
from support.pod_lists import many_pod_metrics
from support.simulated_osb import osb_in_process

LIST = "one list of pod metrics"
INTERVAL_S = 10.0
"""The poller spreads its readings over an interval, so that each of them wakes it up."""

AT_ONCE = 100
"""A crowd shares each awakening: no reading of a daemon can cost less."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    calm_garbage_collector()  # as the poller does
    names = [f"sandbox-{at:05d}-7f9c" for at in range(chosen.sandboxes)]
    with (
        serve_list(many_pod_metrics(names)) as api_server,
        osb_in_process(["--endpoint-form", "gateway-path", "--metrics-delay", "0.2"]) as deployment,
    ):
        ids = [deployment.osb.create(limits={"cpu": "500m", "memory": "128Mi"}) for _ in names]
        costs = asyncio.run(measure(api_server, names, deployment.osb.url, ids, chosen.rounds))
    print(f"| reading {len(names)} sandboxes once | poller's CPU, ms | a sandbox, ms | list / it |\n|---|---|---|---|")
    for name, seconds in costs.items():
        cost_ms, share = statistics.median(seconds) * 1e3, statistics.median(costs[LIST]) / statistics.median(seconds)
        print(f"| {name} | {cost_ms:.1f} | {cost_ms / len(names):.4f} | {share:.3f} |")


async def measure(
    api_server: str, names: Sequence[str], osb: str, ids: Sequence[str], rounds: int
) -> dict[str, list[float]]:
    """Return the CPU seconds of each way, round by round."""
    credentials = Credentials(server=URL(api_server))
    source = KubernetesUsage(credentials, KubernetesSettings(interval_s=15.0, timeout_s=10.0))
    targets = [UsageTarget(name, Identity("kubernetes", osb, f"namespaces/osb/pods/{name}")) for name in names]
    deployment = Deployment(name="bench", endpoint=osb, max_requests_per_second=1e6)
    provider = OpenSandboxProvider(deployment, sample_timeout_s=10.0, allocation_timeout_s=10.0)

    async def sweep() -> None:
        answers = [answer async for _, answer in source.sweep(targets)]
        assert [answer.error_type for answer in answers] == [None] * len(names)

    async def read(sandbox_id: str) -> None:
        reading = await provider.read_sample(sandbox_id)
        assert reading.error_type is None

    async def read_spread() -> None:
        async with asyncio.TaskGroup() as readings:
            for sandbox_id in ids:
                readings.create_task(read(sandbox_id))
                await asyncio.sleep(INTERVAL_S / len(ids))

    async def read_crowded() -> None:
        for at in range(0, len(ids), AT_ONCE):
            await asyncio.gather(*map(read, ids[at : at + AT_ONCE]))

    ways = {LIST: sweep, "execd, spread over ten seconds": read_spread, "execd, a hundred at once": read_crowded}
    try:
        await read_crowded()  # endpoints are known and connections are there, as in a poller that has been running
        await sweep()
        costs: dict[str, list[float]] = {name: [] for name in ways}
        for name, way in [*ways.items()] * rounds:
            costs[name].append(await cost(way))
    finally:
        await source.close()
        await provider.close()
    return costs


async def cost(action: Callable[[], Awaitable[None]]) -> float:
    """Return the CPU seconds of this process, all threads, while the action runs."""
    before = time.process_time()
    await action()
    return time.process_time() - before


@contextmanager
def serve_list(body: bytes) -> Iterator[str]:
    """Serve a list of pod metrics of namespace `osb`, whatever the query, from a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory, "apis/metrics.k8s.io/v1beta1/namespaces/osb/pods")
        place.parent.mkdir(parents=True)
        place.write_bytes(body)
        command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--protocol", "HTTP/1.1"]
        with subprocess.Popen(
            [*command, "--directory", directory],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as server:
            try:
                assert server.stdout is not None
                yield f"http://127.0.0.1:{server.stdout.readline().split()[5]}"
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
