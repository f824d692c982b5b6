"""A poller in front of a great many bodies that nobody sends on purpose, by `make fuzz`; exit code 1 is a finding."""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import psutil

from support.forged_spans import flood
from support.fuzz_run import peak_memory, send_all
from support.fuzzed_bodies import fuzzed_bodies, hurting_bodies
from support.running_poller import RunningPoller


def main() -> int:
    """Send, print what came of it, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--forged", type=int, default=1_000_000, help="start spans of sandboxes that nobody made")
    chosen = parser.parse_args()
    config = {"tracking": {"max_sandboxes": 1000}}
    with tempfile.TemporaryDirectory() as directory, RunningPoller(Path(directory), config) as poller:
        before = peak_memory(poller.pid)
        start = time.monotonic()
        findings = asyncio.run(send_all(poller, fuzzed_bodies(chosen.bodies, chosen.seed)))
        seconds = time.monotonic() - start
        alone = asyncio.run(send_all(poller, hurting_bodies(), senders=1))
        rise = (peak_memory(poller.pid) - before) / 2**20
        resident = psutil.Process(poller.pid).memory_info().rss
        forged_a_second = flood(poller.endpoint, chosen.forged)
        grown = (psutil.Process(poller.pid).memory_info().rss - resident) / 2**20
        complaints = poller.complaints()
    print(f"seed {chosen.seed}: {chosen.bodies} bodies in {seconds:.0f} s, {chosen.bodies / seconds:.0f}/s")
    print(f"statuses: {dict(sorted(findings.statuses.items()))}; memory rose by {rise:.0f} MiB")
    print(f"longest wait of a health check: {findings.held_s:.2f} s; answers when each is sent alone:")
    for kind, took_s in sorted(alone.slowest_s.items(), key=lambda item: -item[1]):
        print(f"  {took_s:6.2f} s  {kind}")
    print(f"{chosen.forged} forged start spans: {forged_a_second:.0f}/s; memory grew by {grown:.0f} MiB")
    for line in [*findings.wrong, *alone.wrong, *complaints]:
        print(f"FINDING {line}", file=sys.stderr)
    return 1 if findings.wrong or alone.wrong or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
