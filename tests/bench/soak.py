"""Whether a poller stays the same under churn: sandboxes come and go, and nothing of them may remain.

Prints what the poller's process holds over time, and exits with 1 where a slope is not flat. The first half of the run
fills what is bounded (caches, pools, allocator); slopes are those of the second half, as growth over that half.
Run it by `make soak`.
"""

import argparse
import os
import secrets
import signal
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from sandgauge_schemas import names
from support import counted_poller
from support.delivered import GAUGES
from support.feed import feed, rollout_span, start_span, stop_span
from support.otlp_proto import points_of
from support.otlp_sink import Answer, OtlpSink
from support.running_poller import RunningPoller
from support.simulated_osb import SimulatedOsb, osb_in_process
from support.waiting import wait_until

INTERVAL_S = 5.0
TICK_S = 0.5
MOST_MEASURES = 200
SETTLE_S = 60.0
PATIENCE_S = 60.0
"""For an answer of the poller, on a machine that is busy with other work too."""
BOUNDS = {"memory_mib": 4.0, "open_files": 25.0, "threads": 1.0, "tasks": 25.0}
"""Most growth over the second half that counts as flat: noise of the allocator, and of how many reads are in flight."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What the process holds at one moment; `series` are the live gauge series at the receiver."""

    at_s: float
    memory_mib: float
    open_files: float
    threads: float
    tasks: float
    series: int


class SeriesSink(OtlpSink):
    """A receiver that keeps no requests, only which gauge series are alive."""

    def __init__(self) -> None:
        super().__init__()
        self._alive: set[tuple[str, str]] = set()

    @property
    def series(self) -> int:
        """Series whose last point is no closing one."""
        return len(self._alive)

    def _take(self, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = super()._take(path, headers, body)
        with self._changed:
            for received in self._received:
                if isinstance(received.message, ExportMetricsServiceRequest):
                    self._follow(received.message)
            self._received.clear()
        return answer

    def _follow(self, message: ExportMetricsServiceRequest) -> None:
        for point in sorted(points_of(message), key=lambda point: point.time_ns):
            if point.name in GAUGES:
                series = (point.name, point.attributes[names.NEMO_GYM_SANDBOX_ID])
                (self._alive.discard if point.value is None else self._alive.add)(series)


class Churn:
    """Sandboxes that come and go: each with a trace, a stop and a rollout span of its own, as Gym's."""

    def __init__(self, osb: SimulatedOsb, poller: RunningPoller) -> None:
        self._osb = osb
        self._poller = poller
        self._live: deque[tuple[str, str]] = deque()
        self.started = 0

    @property
    def live(self) -> int:
        """Sandboxes that are there."""
        return len(self._live)

    def start(self, count: int) -> None:
        """Create so many."""
        spans = []
        for _ in range(count):
            sandbox_id, trace_id = self._osb.create(limits={"cpu": "500m", "memory": "128Mi"}), secrets.token_hex(16)
            self._live.append((sandbox_id, trace_id))
            spans.append(start_span(sandbox_id, trace_id=trace_id, parent=secrets.token_hex(8)))
        self.started += count
        feed(self._poller.endpoint, *spans)

    def end(self, count: int) -> None:
        """Delete the oldest so many."""
        spans = []
        for _ in range(count):
            sandbox_id, trace_id = self._live.popleft()
            self._osb.delete(sandbox_id)
            rollout_id = f"rollout-{trace_id[:8]}"
            spans += [stop_span(sandbox_id, trace_id=trace_id), rollout_span(trace_id, rollout_id)]
        feed(self._poller.endpoint, *spans)


class Meter:
    """Reads what the poller's process holds, and what the receiver has of it."""

    def __init__(self, poller: RunningPoller, sink: SeriesSink, count_file: Path) -> None:
        self._process = psutil.Process(poller.pid)
        self._sink = sink
        self._count_file = count_file

    def measure(self, at_s: float) -> Measure:
        """Return it as it is now."""
        self._count_file.unlink(missing_ok=True)
        self._process.send_signal(signal.SIGUSR1)
        wait_until(
            self._count_file.exists, timeout_s=PATIENCE_S, what="the poller's count of its tasks", interval_s=0.01
        )
        return Measure(
            at_s=at_s,
            memory_mib=self._process.memory_info().rss / 2**20,
            open_files=self._process.num_fds(),
            threads=self._process.num_threads(),
            tasks=float(self._count_file.read_text()),
            series=self._sink.series,
        )


def main() -> None:
    """Churn, measure, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--ids", type=int, default=10_000, help="sandboxes over the whole run")
    parser.add_argument("--live", type=int, default=500, help="sandboxes at once")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        osb_in_process(["--metrics-delay", "0.2"]) as deployment,
        SeriesSink() as sink,
    ):
        count_file = Path(directory) / "tasks"
        os.environ[counted_poller.VARIABLE] = str(count_file)
        config = {
            "deployments": [
                {
                    "name": "soak",
                    "endpoint": deployment.osb.url,
                    "use_server_proxy": "false",
                    "max_requests_per_second": 200,
                }
            ],
            "sampling": {"collection_interval": f"{INTERVAL_S:g}s"},
            # Small, so that all that is bounded by them is full before the slopes are taken.
            "tracking": {"max_sandboxes": 2 * chosen.live, "orphan_grace": "5s", "summary_delay": "10s"},
            "export": {"endpoint": sink.endpoint},
        }
        poller = RunningPoller(Path(directory) / "poller", config, program=[str(counted_poller.__file__)])
        with poller:
            churn = Churn(deployment.osb, poller)
            churn.start(chosen.live)
            meter = Meter(poller, sink, count_file)
            measures = run(churn, meter, seconds=chosen.minutes * 60, ids=chosen.ids - chosen.live)
            settled = settles(sink, len(GAUGES) * churn.live)
            print(f"\nsandboxes in all {churn.started}, live {churn.live}, live series at the receiver {sink.series}")
            churn.end(churn.live)
            emptied = settles(sink, 0)
            print(f"after the last was stopped: live series {sink.series}")
        faults = [*judge(measures), *poller.complaints(), *sink.violations]
    if not settled:
        faults.append(f"there were not {len(GAUGES)} series for each live sandbox")
    if not emptied:
        faults.append("series outlived their sandboxes")
    for fault in faults:
        print(f"NOT FLAT: {fault}")
    sys.exit(1 if faults else 0)


def run(churn: Churn, meter: Meter, *, seconds: float, ids: int) -> list[Measure]:
    """Replace `ids` sandboxes evenly over the seconds, and return what was measured meanwhile."""
    begin, replaced = time.monotonic(), 0
    every_s = max(1.0, seconds / MOST_MEASURES)
    measures: list[Measure] = []
    print("| s | memory, MiB | open files | threads | tasks | series | sandboxes in all |")
    print("|---|---|---|---|---|---|---|")
    while (elapsed := time.monotonic() - begin) < seconds:
        due = int(ids * elapsed / seconds) - replaced
        if due > 0:
            churn.end(due)
            churn.start(due)
            replaced += due
        if elapsed >= len(measures) * every_s:
            measures.append(meter.measure(elapsed))
            if len(measures) % 20 == 1:
                row(measures[-1], churn.started)
        time.sleep(TICK_S)
    row(measures[-1], churn.started)
    return measures


def settles(sink: SeriesSink, series: int) -> bool:
    """Wait until the receiver has so many live series, and return whether it ever had."""
    try:
        wait_until(lambda: sink.series == series, timeout_s=SETTLE_S, what=f"{series} live series")
    except TimeoutError:
        return False
    return True


def judge(measures: Sequence[Measure]) -> list[str]:
    """Print each slope and return what is not flat."""
    half = [one for one in measures if one.at_s >= measures[-1].at_s / 2]
    span_s = half[-1].at_s - half[0].at_s
    faults = []
    print(f"\ngrowth over the last {span_s:.0f} s, by a straight line through {len(half)} measures:")
    for name, bound in BOUNDS.items():
        values = [getattr(one, name) for one in half]
        growth = statistics.linear_regression([one.at_s for one in half], values).slope * span_s
        print(f"{name}: {growth:+.2f} (at most {bound:g}); mean {statistics.fmean(values):.1f}, most {max(values):.1f}")
        if growth > bound:
            faults.append(f"{name} grew by {growth:.2f} over {span_s:.0f} s; at most {bound:g} is allowed")
    return faults


def row(one: Measure, started: int) -> None:
    """Print one line of the table."""
    print(
        f"| {one.at_s:.0f} | {one.memory_mib:.1f} | {one.open_files:.0f} | {one.threads:.0f} | {one.tasks:.0f} |"
        f" {one.series} | {started} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
