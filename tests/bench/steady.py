"""One measurement in the steady state: a subject reads a fleet of so many sandboxes, and its process is watched."""

import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bench.processes import FleetProcess, Program, SinkProcess, cores, cpu_s, on_core, rss_bytes
from sandgauge_schemas import names
from support.feed import feed, start_span
from support.running_poller import RunningPoller

INTERVAL_S = 10.0
_BATCH = 100
_CALM_S = 1.5 * INTERVAL_S
"""After every sandbox was read once: by then each is on its own phase."""
_PATIENCE_S = 60.0


class Subject(StrEnum):
    """What reads the fleet."""

    POLLER = "poller"
    FLOOR = "floor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """One window of a subject."""

    subject: Subject
    sandboxes: int
    reads: int
    cpu_ms_a_read: float
    fleet_cpu_ms_a_read: float
    core_share: float
    rss_mib: float


def measure(subject: Subject, sandboxes: int, seconds: float, *, with_uvloop: bool) -> Steady:
    """Start everything, wait until it is calm, watch for so many seconds."""
    _, other = cores()
    with (
        tempfile.TemporaryDirectory() as folder,
        FleetProcess(other) as fleet,
        SinkProcess(other, Path(folder, "sink")) as sink,
    ):
        ids = [str(uuid.uuid4()) for _ in range(sandboxes)]
        addresses = fleet.create(ids)
        if subject is Subject.POLLER:
            with poller(Path(folder), fleet, sink) as pid_and_endpoint:
                pid, endpoint = pid_and_endpoint
                introduce(endpoint, ids)
                return watch(subject, pid, fleet, sandboxes, seconds)
        given = {"addresses": addresses, "interval_s": INTERVAL_S, "uvloop": with_uvloop}
        with Program("floor", cores()[0], given=given) as floor:
            return watch(subject, floor.pid, fleet, sandboxes, seconds)


def watch(subject: Subject, pid: int, fleet: FleetProcess, sandboxes: int, seconds: float) -> Steady:
    """Measure once all have been read and it is calm."""
    until_all_read(fleet)
    time.sleep(_CALM_S)
    before, cpu, fleet_cpu, began = fleet.counts(), cpu_s(pid), cpu_s(fleet.pid), time.monotonic()
    time.sleep(seconds)
    after, cpu, fleet_cpu = fleet.counts(), cpu_s(pid) - cpu, cpu_s(fleet.pid) - fleet_cpu
    elapsed = time.monotonic() - began
    reads = after["answered"] - before["answered"]
    return Steady(
        subject=subject,
        sandboxes=sandboxes,
        reads=reads,
        cpu_ms_a_read=cpu / reads * 1e3,
        fleet_cpu_ms_a_read=fleet_cpu / reads * 1e3,
        core_share=cpu / elapsed,
        rss_mib=rss_bytes(pid) / 2**20,
    )


def until_all_read(fleet: FleetProcess) -> None:
    """Return once every sandbox was read; TimeoutError where none of those left is within a minute."""
    fewest, since = fleet.counts()["unread"], time.monotonic()
    while fewest > 0:
        time.sleep(0.2)
        unread = fleet.counts()["unread"]
        if unread < fewest:
            fewest, since = unread, time.monotonic()
        elif time.monotonic() - since > _PATIENCE_S:
            raise TimeoutError(f"{unread} sandboxes were not read, and none of them within {_PATIENCE_S:g} s")


@contextmanager
def poller(folder: Path, fleet: FleetProcess, sink: SinkProcess) -> Iterator[tuple[int, str]]:
    """Run a poller on its core and give its process id and ingest port."""
    config: dict[str, Any] = {
        "deployments": [
            {
                "name": "bench",
                "endpoint": fleet.url,
                "use_server_proxy": "false",
                "max_requests_per_second": 1000,
            }
        ],
        "sampling": {"collection_interval": f"{INTERVAL_S:g}s"},
        "export": {"endpoint": sink.endpoint},
    }
    running = RunningPoller(folder / "poller", config)
    with on_core(cores()[0]):
        running.start()
    try:
        yield running.pid, running.endpoint
    finally:
        running.stop()


def introduce(endpoint: str, ids: list[str]) -> None:
    """Feed the start spans of sandboxes, as a Collector does: many in a request."""
    for at in range(0, len(ids), _BATCH):
        spans = [
            start_span(
                sandbox_id,
                parent="00f067aa0ba902b7",
                attributes={
                    names.NEMO_GYM_ROLLOUT_ID: f"rollout-{sandbox_id[:13]}",
                    names.NEMO_GYM_SANDBOX_REQUEST_ID: str(uuid.uuid4()),
                },
            )
            for sandbox_id in ids[at : at + _BATCH]
        ]
        feed(endpoint, *spans)
