"""What one poller costs: idle, and with many simulated sandboxes. Prints a table; run it by `make bench`.

The poller is a process of its own, its deployment another, its receiver lives in this one. CPU is the poller's own
process time over wall time, so that a busy machine changes it little; times are this machine's.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandgauge_schemas import names
from support.feed import feed, start_span
from support.otlp_sink import OtlpSink
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb, osb_in_process

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
LONE_STARTS = 10


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU as a share of one core in percent, resident memory in MiB, over so many seconds."""

    cpu_percent: float
    rss_mib: float
    seconds: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sandboxes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each state is watched")
    parser.add_argument("--interval", type=float, default=10.0, help="collection interval in seconds")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        osb_in_process(["--endpoint-form", "gateway-path"]) as deployment,
        OtlpSink() as sink,
    ):
        config = {
            "deployments": [{"name": "bench", "endpoint": deployment.osb.url}],
            "sampling": {"collection_interval": f"{chosen.interval}s"},
            "export": {"endpoint": sink.endpoint},
        }
        with RunningPoller(Path(directory), config) as poller:
            process = psutil.Process(poller.pid)
            print("| state | CPU, % of a core | resident memory, MiB |\n|---|---|---|")
            row("idle", watch(process, chosen.seconds))
            lags = [first_sample_s(deployment.osb, poller, sink) for _ in range(LONE_STARTS)]
            ids = [deployment.osb.create(limits={"cpu": "500m", "memory": "128Mi"}) for _ in range(chosen.sandboxes)]
            for batch in batches(ids, 100):
                feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in batch))
            sink.wait_for(lambda seen: len({s.trace_id for s in seen.spans(SAMPLE)}) >= chosen.sandboxes, 120)
            time.sleep(chosen.interval)  # the first rush is over, every sandbox is on its own phase
            before = len(sink.spans(SAMPLE))
            cost = watch(process, chosen.seconds)
            samples = len(sink.spans(SAMPLE)) - before
            row(f"{chosen.sandboxes} sandboxes every {chosen.interval:g} s", cost)
        due = (chosen.sandboxes + LONE_STARTS) * cost.seconds / chosen.interval
        each_ms = cost.cpu_percent * 10 * cost.seconds / samples
        print(f"\nreadings: {samples} of {due:.0f} due; CPU a reading: {each_ms:.2f} ms")
        print(
            "start span sent to first sample received (1 s of it is the daemon's own): "
            f"median {statistics.median(lags):.2f} s, most {max(lags):.2f} s, of {LONE_STARTS}"
        )


def watch(process: psutil.Process, seconds: float) -> Cost:
    """Return what the process takes over the given time."""
    start, cpu = time.monotonic(), sum(process.cpu_times()[:2])
    time.sleep(seconds)
    elapsed = time.monotonic() - start
    return Cost((sum(process.cpu_times()[:2]) - cpu) / elapsed * 100, process.memory_info().rss / 2**20, elapsed)


def first_sample_s(osb: SimulatedOsb, poller: RunningPoller, sink: OtlpSink) -> float:
    """Return the seconds from sending a start span to receiving that sandbox's first sample."""
    sandbox_id = osb.create(limits={"cpu": "500m", "memory": "128Mi"})
    start = time.monotonic()
    feed(poller.endpoint, start_span(sandbox_id))
    key = names.NEMO_GYM_SANDBOX_ID
    sink.wait_for(lambda seen: any(s.attributes[key] == sandbox_id for s in seen.spans(SAMPLE)), 10)
    return time.monotonic() - start


def batches(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield the items in groups."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def row(state: str, cost: Cost) -> None:
    """Print one line of the table."""
    print(f"| {state} | {cost.cpu_percent:.1f} | {cost.rss_mib:.0f} |")


if __name__ == "__main__":
    main()
