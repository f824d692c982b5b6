"""What a measurement plays in: a fleet and a sink on one core, the poller on the other."""

import json
import os
import secrets
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import watched_poller
from bench.processes import FleetProcess, SinkProcess, cores, on_core
from sandgauge_schemas import names
from support.feed import OPENSANDBOX, feed, start_span
from support.running_poller import RunningPoller
from support.waiting import wait_until

_BATCH = 100
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One sandbox as Gym's start span names it."""

    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    trace_id: str = field(default_factory=lambda: secrets.token_hex(16))
    parent_span_id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def rollout_id(self) -> str:
        """The rollout that it serves."""
        return f"rollout-{self.trace_id}"

    @property
    def keys(self) -> Mapping[str, str]:
        """What joins its records to a rollout, beside what every start span says."""
        return {
            names.NEMO_RUN_ID: "bench-run",
            names.NEMO_GYM_ROLLOUT_ID: self.rollout_id,
            names.NEMO_GYM_SANDBOX_REQUEST_ID: f"request-{self.parent_span_id}",
        }

    @property
    def all_keys(self) -> Mapping[str, str]:
        """The same with the sandbox and its provider."""
        return {
            **self.keys,
            names.NEMO_GYM_SANDBOX_ID: self.id,
            names.NEMO_GYM_SANDBOX_PROVIDER: OPENSANDBOX,
        }

    def start_span(self, **attributes: Any) -> dict[str, Any]:
        """Return its start span, which ends now."""
        return start_span(
            self.id, trace_id=self.trace_id, parent=self.parent_span_id, attributes={**self.keys, **attributes}
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """Where things are while a measurement lasts."""

    folder: Path
    fleet: FleetProcess
    sink: SinkProcess
    interval_s: float


@contextmanager
def scene(interval_s: float) -> Iterator[Scene]:
    """Start a fleet without sandboxes and a sink."""
    _, other = cores()
    with tempfile.TemporaryDirectory() as name, FleetProcess(other) as fleet:
        folder = Path(name)
        with SinkProcess(other, folder / "sink") as sink:
            yield Scene(folder, fleet, sink, interval_s)


@contextmanager
def poller(
    at: Scene, *, requests_per_second: int = 1000, heartbeat: Path | None = None, **sections: Any
) -> Iterator["WatchedPoller"]:
    """Run a poller of this fleet on its core; `sections` are further ones of its configuration.

    It may ask its control plane so often that this does not decide how fast a fleet comes up. With `heartbeat`, a
    folder, its event loop has one, which `bench.heartbeat` reads.
    """
    os.environ.pop(watched_poller.HEARTBEAT, None)
    if heartbeat is not None:
        os.environ[watched_poller.HEARTBEAT] = str(heartbeat)
    running = WatchedPoller(at, requests_per_second, sections)
    running.start_on_its_core()
    try:
        yield running
    finally:
        running.stop()
    complaints = running.complaints()
    if complaints:
        raise RuntimeError(f"the poller complained {len(complaints)} times, at first: {complaints[0]}")


class WatchedPoller(RunningPoller):
    """A poller whose threads and tasks can be asked for."""

    def __init__(self, at: Scene, requests_per_second: int, sections: Mapping[str, Any]) -> None:
        self._count_file = at.folder / "counts"
        os.environ[watched_poller.COUNTS] = str(self._count_file)
        config = {
            "deployments": [
                {
                    "name": "bench",
                    "endpoint": at.fleet.url,
                    "use_server_proxy": "false",
                    "max_requests_per_second": requests_per_second,
                }
            ],
            "sampling": {"collection_interval": f"{at.interval_s:g}s"},
            "export": {"endpoint": at.sink.endpoint},
            **sections,
        }
        super().__init__(at.folder / "poller", config, program=[str(watched_poller.__file__)])

    @property
    def status_port(self) -> int:
        """Where it says how it is."""
        return int(self.status_url.rpartition(":")[2])

    def start_on_its_core(self) -> None:
        """Start it, again after `kill`, and return once it is ready."""
        with on_core(cores()[0]):
            self.start()

    @property
    def has_uvloop(self) -> bool:
        """Whether it has uvloop loaded."""
        return "/uvloop/" in Path(f"/proc/{self.pid}/maps").read_text()

    def counts(self) -> dict[str, Any]:
        """Return its `tasks`, and its `threads` as native ids by name."""
        self._count_file.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        wait_until(self._count_file.exists, timeout_s=_PATIENCE_S, what="the poller's own counts", interval_s=0.01)
        counts: dict[str, Any] = json.loads(self._count_file.read_text())
        return counts

    def introduce(self, sandboxes: Sequence[Sandbox]) -> None:
        """Feed the start spans of sandboxes, as a Collector does: many in a request."""
        for at in range(0, len(sandboxes), _BATCH):
            feed(self.endpoint, *(sandbox.start_span() for sandbox in sandboxes[at : at + _BATCH]))


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
