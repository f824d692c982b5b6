"""`sandgauge demo` as a user starts it, and what its output and its joined file must hold whatever Collector it had."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sandgauge_schemas import names
from sandgauge_schemas.names import SampleScope
from support.conformance import trace_violations
from support.otlp_json import plain
from support.waiting import wait_until

_TIMEOUT_S = 240.0
_STOP_TIMEOUT_S = 90.0

EXPECTED = [
    ("0-0", "stopped", {"cpus": ["2", "2", "2"], "memory": ["4 GiB"] * 3, "disk": ["10 GiB", "10 GiB", "unknown"]}),
    ("0-1", "stopped", {"cpus": ["8", "4", "4"], "memory": ["16 GiB", "8 GiB", "8 GiB"]}),
    ("1-0", "stopped", {"cpus": ["0.5"] * 3, "memory": ["512 MiB"] * 3}),
    ("1-0", "stopped", {"cpus": ["0.5"] * 3, "memory": ["512 MiB"] * 3}),
    ("1-0", "not created: ClientResponseError", {"cpus": ["1", "-", "-"], "memory": ["1 GiB", "-", "-"]}),
    ("1-1", "stopped", {"cpus": ["-", "default", "1"], "memory": ["-", "default", "2 GiB"]}),
    ("2-0", "failed, out of memory", {"cpus": ["1"] * 3, "memory": ["256 MiB"] * 3}),
]
"""Rollout, end, and what is requested, submitted and allocated of each resource."""

MEMORY_SCOPES = ["node", "sandbox", "sandbox", "sandbox", None, "node", "sandbox"]
"""Whose memory is read, by sandbox; None was not created."""

_TITLE = re.compile(
    r"rollout (?P<rollout>\S+)  (?:sandbox (?P<sandbox>[0-9a-f]{8})  )?(?P<end>.+?)(?:  readings .+?)?\s*"
)
_LIFETIME = re.compile(r" after \S+ s")
_RESOURCE = re.compile(r"  (?P<name>cpus|memory|disk) {2,}(?P<cells>.+?)\s*")


@dataclass(frozen=True, slots=True)
class ShownSandbox:
    """One sandbox of the table; a resource's cells are requested, submitted, allocated, the statistics, and whose."""

    rollout: str
    end: str
    cells: dict[str, list[str]]


class DemoRun:
    """A demo in a folder of its own. Nothing of the environment chooses its Collector but `environment`."""

    def __init__(self, directory: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self.folder = directory / "runs"
        command = [sys.executable, "-m", "sandgauge_poller", "demo", "--folder", str(self.folder), *arguments]
        own = {"SANDGAUGE_OTELCOL": "", "SANDGAUGE_CACHE": str(directory), "PATH": str(directory), **environment}
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONWARNINGS": "default", **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._children: set[psutil.Process] = set()

    def wait_for_children(self, count: int) -> None:
        """Return once it has started so many processes."""
        wait_until(lambda: len(self._look()) >= count, timeout_s=60, what=f"{count} processes of the demo")

    def wait_for_readings(self) -> None:
        """Return once readings have come all the way to the joined file."""
        sample = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE
        wait_until(
            lambda: any(sample in file.read_text() for file in self.folder.glob("*/joined.jsonl")),
            timeout_s=60,
            what="readings in the joined file",
        )
        self._look()

    def interrupt(self) -> tuple[int, str]:
        """Do what Ctrl-C does; return exit code and output."""
        self._look()
        self._process.send_signal(signal.SIGINT)
        output, _ = self._process.communicate(timeout=_STOP_TIMEOUT_S)
        return self._process.returncode, output

    def finish(self) -> tuple[int, str]:
        """Let it run to its end; return exit code and output."""
        try:
            output, _ = self._process.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGINT)
            raise
        return self._process.returncode, output

    def child(self, module: str) -> psutil.Process:
        """Return the running part of that module."""
        (found,) = (one for one in self._look() if module in command_of(one))
        return found

    def left_over(self) -> list[psutil.Process]:
        """Return what it started, as far as it was seen, and still runs."""
        return [child for child in self._children if child.is_running()]

    def joined_lines(self) -> list[dict[str, Any]]:
        """Return the lines of the joined file of the only run."""
        (file,) = self.folder.glob("*/joined.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]

    def _look(self) -> set[psutil.Process]:
        self._children |= set(psutil.Process(self._process.pid).children(recursive=True))
        return self._children


def command_of(process: psutil.Process) -> list[str]:
    """Return what a process was started with; nothing if it has ended meanwhile."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def shown_sandboxes(output: str) -> list[ShownSandbox]:
    """Read the table out of a demo's output."""
    shown: list[ShownSandbox] = []
    for line in output.splitlines():
        if title := _TITLE.fullmatch(line):
            shown.append(ShownSandbox(title["rollout"], _LIFETIME.sub("", title["end"]), {}))
        elif (resource := _RESOURCE.fullmatch(line)) and shown:
            shown[-1].cells[resource["name"]] = re.split(r" {2,}", resource["cells"])
    return shown


def assert_shows_the_run(output: str) -> None:
    """Fail unless the table holds what the five rollouts asked for and got, and what was read of whose machine."""
    shown = shown_sandboxes(output)
    assert [(one.rollout, one.end, {name: cells[:3] for name, cells in one.cells.items()}) for one in shown] == EXPECTED
    for one, memory_scope in zip(shown, MEMORY_SCOPES, strict=True):
        cpu, memory = one.cells["cpus"][3:], one.cells["memory"][3:]
        match memory_scope:
            case None:
                assert (cpu, memory) == (["-"], ["-"])
            case SampleScope.NODE:
                assert re.fullmatch(r"(\d+ % ){4}node \d+ opensandbox.execd", " ".join(cpu))
                assert re.fullmatch(r"(\S+ GiB ){4}node \d+ opensandbox.execd", " ".join(memory))
            case SampleScope.SANDBOX:
                assert re.fullmatch(r"(\d+ % ){4}unknown \d+ opensandbox.execd", " ".join(cpu))
                assert re.fullmatch(r"(\S+ [MG]iB ){4}\d+ % sandbox \d+ opensandbox.execd", " ".join(memory))
    assert shown[-1].cells["memory"][6:9] == ["256 MiB", "100 %", "sandbox"]


def assert_grouped_by_rollout(lines: list[dict[str, Any]], run_id: str, rollout_ids: set[str]) -> None:
    """Fail unless the lines keep the contract, with one resource key for each rollout, at most once in a line."""
    seen = set()
    for line in lines:
        groups = [plain(one["resource"]["attributes"]) for one in line["resourceSpans"]]
        assert all(group.keys() == {names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID} for group in groups)
        keys = [(group[names.NEMO_RUN_ID], group[names.NEMO_GYM_ROLLOUT_ID]) for group in groups]
        assert len(keys) == len(set(keys))
        seen |= set(keys)
        assert not trace_violations(ParseDict(line, ExportTraceServiceRequest()))
    assert seen == {(run_id, rollout_id) for rollout_id in rollout_ids}
