"""A poller in a process of its own, as a user runs it: a configuration file, the command, its log."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from sandgauge_demo.loopback import free_ports
from support.waiting import wait_until

_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 60.0


class RunningPoller:
    """`sandgauge run` on free loopback ports; `start` may be called again after `stop` or `kill`: same ports and state.

    The ports are known before it runs, since a Collector wants to be told where it will be. `program` is what the
    interpreter runs.
    """

    def __init__(
        self,
        directory: Path,
        config: dict[str, Any] | None = None,
        *,
        program: Sequence[str] = ("-m", "sandgauge_poller"),
    ) -> None:
        self._program = program
        directory.mkdir(parents=True, exist_ok=True)
        self._ingest_port, self._status_port = free_ports(2)
        self.endpoint = f"http://127.0.0.1:{self._ingest_port}"
        self.status_url = f"http://127.0.0.1:{self._status_port}"
        self.log_file = directory / "poller.log"
        self.config_file = directory / "sandgauge.yaml"
        self.configure(config or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log_seen = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def configure(self, config: dict[str, Any]) -> None:
        """Write the configuration's sections; listening addresses and the state folder are filled in."""
        whole = {
            "ingest": {"endpoint": f"127.0.0.1:{self._ingest_port}"},
            "status": {"endpoint": f"127.0.0.1:{self._status_port}"},
            "state": {"directory": str(self.config_file.parent / "state")},
            **config,
        }
        self.config_file.write_text(yaml.safe_dump(whole))

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether it has ended by itself; `stop` then returns its exit code."""
        return self._process is not None and self._process.poll() is not None

    def launch(self) -> None:
        """Start the process and return at once; `kill` may meet it before it is ready."""
        self._log_seen = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._program, "run", "--config", str(self.config_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONWARNINGS": "default"},
            )

    def start(self) -> None:
        """Start the process and return once it is ready."""
        self.launch()
        process = self._process
        wait_until(
            lambda: bool(self._messages(r"^ready")) or process.poll() is not None,
            timeout_s=_START_TIMEOUT_S,
            what="a poller that is ready",
        )
        if process.poll() is not None:
            raise RuntimeError(f"the poller ended with {process.returncode}: {self.log_file.read_text()[-2000:]}")

    def stop(self) -> int:
        """End it as an orchestrator does, and return its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """End it as a crash does."""
        return self._end(signal.SIGKILL)

    def log(self) -> list[dict[str, Any]]:
        """Return everything it has logged."""
        return self._entries(0)

    def complaints(self) -> list[str]:
        """Return what it logged as an error, and whatever else it printed."""
        errors = [entry["message"] for entry in self.log() if entry["level"] in ("error", "critical")]
        return errors + [line for line in self.log_file.read_text().splitlines() if not line.startswith("{")]

    def _messages(self, pattern: str) -> list[str]:
        entries = self._entries(self._log_seen)
        return [entry["message"] for entry in entries if re.search(pattern, entry["message"])]

    def _entries(self, since: int) -> list[dict[str, Any]]:
        """Return what it has logged after so many bytes; the line that is just being written is none yet."""
        whole, _, _ = self.log_file.read_bytes()[since:].rpartition(b"\n")
        return [json.loads(line) for line in whole.decode().splitlines() if line.startswith("{")]

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        try:
            return self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._process = None
