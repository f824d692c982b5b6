"""A list of 5,000 pods, in a process of its own: what it takes, and that the loop goes on meanwhile."""

import subprocess
import sys
from pathlib import Path

from support.pod_lists import many_pod_metrics

_SWEEP = """
import asyncio, sys, time
from contextlib import aclosing
from pathlib import Path

from yarl import URL

from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.exchange import Answer
from sandgauge_poller.reading.kubernetes.client import ApiServer
from sandgauge_poller.reading.kubernetes.credentials import Credentials
from sandgauge_poller.reading.kubernetes.source import KubernetesSettings, KubernetesUsage
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_poller.reading.usage.source import UsageTarget
from sandgauge_schemas.placement import Identity

targets = [UsageTarget(f"s-{at}", Identity("kubernetes", "", f"namespaces/osb/pods/p-{at}")) for at in range(5000)]
answered = []

async def get(self, path, query, *, asked):
    return Answer(window=ReadWindow(0, 1), status=200, body=Path(sys.argv[1]).read_bytes())

ApiServer.get = get

async def record(answer):
    answered.append(answer)

async def sweep(source):
    async with aclosing(source.sweep(targets)) as answers, asyncio.TaskGroup() as recording:
        async for _, answer in answers:
            recording.create_task(record(answer))

async def main():
    settings = KubernetesSettings(interval_s=15.0, timeout_s=5.0)
    source = KubernetesUsage(Credentials(server=URL("http://127.0.0.1")), settings)
    sweeping = asyncio.create_task(sweep(source))
    longest, turns, began = 0.0, 0, time.process_time()
    last = began
    while not sweeping.done():
        await asyncio.sleep(0)
        now = time.process_time()
        longest, last, turns = max(longest, now - last), now, turns + 1
    await sweeping
    await source.close()
    good = sum(answer.observation is not None for answer in answered)
    # Not getrusage: its peak begins with the memory of whoever started the process.
    peak_kib = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    print(good, longest, last - began, turns, peak_kib * 1024)

asyncio.run(main())
"""


def test_five_thousand_pods_take_little_memory_and_let_the_loop_run(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_bytes(many_pod_metrics([f"p-{at}" for at in range(5000)]))
    command = [sys.executable, "-c", _SWEEP, str(file)]
    blocks_s = []
    for _ in range(3):
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        good, longest_s, took_s, turns, peak = (float(word) for word in said)
        print(f"longest block {longest_s * 1e3:.1f} of {took_s * 1e3:.0f} ms, {turns:.0f} turns, {peak / 1e6:.0f} MB")
        assert good == 5000
        assert peak < 150e6
        assert turns >= 250
        blocks_s.append(longest_s)
    # In the CPU time of the process, all threads: what others on the machine do does not count, except that each is
    # slower beside them, which differs from time to time.
    assert min(blocks_s) < 0.05
