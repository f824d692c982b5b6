"""The demo's whole pipeline as child processes: simulated OpenSandbox, Collector, poller, Gym-like run."""

import re
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from sandgauge_demo.collector import (
    BASE,
    JOINED,
    JOINED_FILE,
    CollectorError,
    Destinations,
    RunningCollector,
    find_collector,
    shipped_config,
    source_checkout,
)
from sandgauge_demo.loopback import HOST, free_ports, is_ok
from sandgauge_demo.outcome import Outcome, read_outcome
from sandgauge_demo.process import ChildProcess, Pause, ProcessError

CONFIG_FILE = "sandgauge.yaml"
"""Name of the poller's configuration in the folder of a run."""

Starting = Generator["StartedPart", None, str]
"""Tells of a part that is up, and returns its address."""

_COLLECTION_INTERVAL = "2s"
_START_TIMEOUT_S = 90.0
_NOBODY = f"http://{HOST}:9"
"""Where the Collector's backends would be: the demo has none."""

_ADDRESS_LINE = re.compile(r"^(http://\S+)\n", re.MULTILINE)
_NOT_FOR_CHILDREN = ("OTEL_", "NEMO_", "SANDGAUGE_", "OPENSANDBOX_")
_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy"})

_STAND_IN = "none found, so a stand-in; a real one: `make collector`, SANDGAUGE_OTELCOL, or otelcol-contrib on PATH"
_STAND_IN_FROM_WHEEL = "a stand-in; a real one needs the configuration of a source checkout: run `make demo` there"


@dataclass(frozen=True, slots=True)
class StartedPart:
    """A part that is up: what it is, where it listens, and what to know about it."""

    name: str
    address: str
    remark: str


class Pipeline:
    """Everything between a Gym-like run and the joined file, as a context manager that ends every process.

    All parts listen on free loopback ports and write below `folder`, which must exist. `environ` is the caller's
    environment: what it says of telemetry, proxies and the caller's own OpenSandbox does not reach the parts.
    """

    def __init__(self, folder: Path, *, run_id: str, rollouts: int, environ: Mapping[str, str], pause: Pause) -> None:
        self._folder = folder
        self._joined_file = folder / JOINED_FILE
        self._run_id = run_id
        self._rollouts = rollouts
        self._environ = environ
        self._pause = pause
        self._children_environ = {
            name: value
            for name, value in environ.items()
            if not name.startswith(_NOT_FOR_CHILDREN) and name.lower() not in _PROXIES
        }
        self._stack = ExitStack()
        self._services: list[ChildProcess] = []
        self._gym: ChildProcess | None = None

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End every process, the last one first."""
        self._stack.close()

    def start(self) -> Iterator[StartedPart]:
        """Start one part after another and tell of each.

        Raise ProcessError or CollectorError for one that does not come up.
        """
        opensandbox = yield from self._start_opensandbox()
        ingest_port, status_port = free_ports(2)
        collector = yield from self._start_collector(f"http://{HOST}:{ingest_port}")
        yield from self._start_poller(opensandbox, collector, ingest_port, status_port)
        yield from self._start_gym(opensandbox, collector)

    def is_run_over(self) -> bool:
        """Tell whether the Gym-like run has ended well. Raise ProcessError when a part ended as it should not."""
        for process in self._services:
            if process.exit_code is not None:
                raise ProcessError(f"{process.name} ended with {process.exit_code}; {process.log_tail()}")
        if self._gym is None or self._gym.exit_code is None:
            return False
        if self._gym.exit_code != 0:
            raise ProcessError(f"{self._gym.name} ended with {self._gym.exit_code}; {self._gym.log_tail()}")
        return True

    def outcome(self) -> Outcome:
        """Return what has come through the whole pipeline so far."""
        return read_outcome(self._joined_file)

    def _start_opensandbox(self) -> Starting:
        process = self._service("opensandbox", "sandgauge_demo.deployment", "--control")
        address = self._printed_address(process)
        yield StartedPart("OpenSandbox", address, "simulated, a daemon in each sandbox")
        return address

    def _start_collector(self, poller: str) -> Starting:
        if binary := self._find_collector():
            binary_path, config_files = binary
            collector = RunningCollector(
                binary_path,
                config_files,
                directory=self._folder,
                destinations=Destinations(poller=poller, traces=_NOBODY, metrics=_NOBODY),
                settings={"JOIN_WINDOW": "1s"},
            )
            self._stack.callback(collector.stop)
            self._services.append(collector)
            collector.start(self._pause)
            yield StartedPart("Collector", collector.endpoint, f"{binary_path}, without backends")
            return collector.endpoint
        arguments = ("--poller", poller, "--joined-file", str(self._joined_file))
        process = self._service("stand-in", "sandgauge_demo.stand_in", *arguments)
        address = self._printed_address(process)
        yield StartedPart("Collector", address, _STAND_IN_FROM_WHEEL if source_checkout() is None else _STAND_IN)
        return address

    def _find_collector(self) -> tuple[Path, tuple[Path, ...]] | None:
        checkout = source_checkout()
        if checkout is None:
            if self._environ.get("SANDGAUGE_OTELCOL"):
                raise CollectorError(
                    "SANDGAUGE_OTELCOL is set, but the Collector's configuration comes with a source checkout only. "
                    "Run `make demo` there, or unset the variable to use the stand-in."
                )
            return None
        config_files = shipped_config(checkout, BASE, JOINED)
        binary = find_collector(self._environ, checkout, config_files)
        return None if binary is None else (binary, config_files)

    def _start_poller(self, opensandbox: str, collector: str, ingest_port: int, status_port: int) -> Starting:
        config = _poller_config(opensandbox, collector, ingest_port, status_port)
        (self._folder / CONFIG_FILE).write_text(config, encoding="utf-8")
        process = self._service("poller", "sandgauge_poller", "run", "--config", CONFIG_FILE)
        process.wait_until(
            lambda: is_ok(status_port, "/readyz"), timeout_s=_START_TIMEOUT_S, what="ready", pause=self._pause
        )
        address = f"http://{HOST}:{ingest_port}"
        yield StartedPart("poller", address, f"live page: http://{HOST}:{status_port}")
        return address

    def _start_gym(self, opensandbox: str, collector: str) -> Iterator[StartedPart]:
        arguments = {
            "--opensandbox": opensandbox,
            "--collector": collector,
            "--run-id": self._run_id,
            "--rollouts": str(self._rollouts),
        }
        self._gym = self._child("gym", "sandgauge_demo.gym_run", *(word for pair in arguments.items() for word in pair))
        yield StartedPart("Gym", self._run_id, "the run, with the emitter")

    def _service(self, name: str, module: str, *arguments: str) -> ChildProcess:
        process = self._child(name, module, *arguments)
        self._services.append(process)
        return process

    def _child(self, name: str, module: str, *arguments: str) -> ChildProcess:
        process = ChildProcess(
            name,
            [sys.executable, "-m", module, *arguments],
            environment=self._children_environ,
            log_file=self._folder / f"{name}.log",
            directory=self._folder,
        )
        return self._stack.enter_context(process)

    def _printed_address(self, process: ChildProcess) -> str:
        """Wait for the line in which a part says where it listens, and return it."""
        found: list[str] = []

        def has_printed() -> bool:
            found.extend(_ADDRESS_LINE.findall(process.log_file.read_text(encoding="utf-8")))
            return bool(found)

        process.wait_until(has_printed, timeout_s=_START_TIMEOUT_S, what="listening", pause=self._pause)
        return found[0]


def _poller_config(opensandbox: str, collector: str, ingest_port: int, status_port: int) -> str:
    return f"""\
# What the poller of the demo ran with, in this folder. Every other key has its default: docs/configuration.md.
ingest:
  endpoint: {HOST}:{ingest_port}  # the Collector sends the lifecycle spans here
deployments:
  - name: simulated
    endpoint: {opensandbox}
sampling:
  collection_interval: {_COLLECTION_INTERVAL}  # a demo is short; 10s is the default
export:
  endpoint: {collector}
state:
  directory: ./state
status:
  endpoint: {HOST}:{status_port}
"""
