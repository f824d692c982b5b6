"""The shipped compose file as it is, on a Docker daemon of the tests' own; asked over the ports that it publishes."""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from support.build_cache import REPOSITORY
from support.inside_network import InsideNetwork
from support.stack_images import DockerCli
from support.waiting import wait_until

PROJECT = "sandgauge"
DEMO = ("--profile", "demo")
# Everything is up within 15 s on an idle machine.
UP_TIMEOUT_S = 180


def shipped_settings() -> dict[str, str]:
    """Return what `.env` says."""
    lines = (REPOSITORY / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@dataclass(frozen=True, slots=True)
class ComposeStack:
    """The services of docker-compose.yml. `settings` are variables of the shell; they win over `.env`."""

    docker: DockerCli
    network: InsideNetwork
    settings: Mapping[str, str] = field(default_factory=dict)

    def compose(self, *arguments: str, settings: Mapping[str, str] | None = None) -> str:
        """Run a Compose command that must succeed; return what it prints."""
        return self.docker.run(
            "compose", *arguments, settings={**self.settings, **(settings or {})}, timeout_s=UP_TIMEOUT_S
        )

    def attempt(self, *arguments: str, settings: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a Compose command that may fail."""
        return self.docker.attempt(
            "compose", *arguments, settings={**self.settings, **(settings or {})}, timeout_s=UP_TIMEOUT_S
        )

    def url(self, service: str, path: str = "") -> str:
        """Return a URL that `request` takes: `otlp_http`, `status`, `jaeger`, `prometheus`, `grafana` and a path."""
        port = {**shipped_settings(), **self.settings}[f"SANDGAUGE_{service.upper()}_PORT"]
        return f"http://127.0.0.1:{port}{path}"

    def request(self, method: str, service: str, path: str, **named: Any) -> requests.Response:
        """Ask a service over its published port, as someone on the machine would."""
        return self.network.request(method, self.url(service, path), **named)

    def get(self, service: str, path: str, **named: Any) -> requests.Response:
        """GET from a service; see `request`."""
        return self.request("GET", service, path, **named)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Evaluate PromQL now; return the series as Prometheus' API shows them (`metric`, `value`)."""
        answer = self.request("POST", "prometheus", "/api/v1/query", data={"query": expression}).json()
        if answer["status"] != "success":
            raise ValueError(f"{expression}: {answer['error']}")
        return list(answer["data"]["result"])

    def number(self, expression: str) -> float | None:
        """Evaluate PromQL that gives one series or none; return its value."""
        series = self.query(expression)
        return float(series[0]["value"][1]) if series else None

    def traces(
        self, service: str, operation: str | None = None, limit: int = 1000, **tags: str
    ) -> list[dict[str, Any]]:
        """Return the traces with a span of the service, operation and tags, as Jaeger's query API shows them."""
        asked = {"service": service, "limit": str(limit), "lookback": "1h"}
        if operation is not None:
            asked["operation"] = operation
        if tags:
            asked["tags"] = json.dumps(tags)
        return list(self.get("jaeger", "/api/traces", params=asked).json()["data"] or [])

    def joined(self) -> Iterator[dict[str, Any]]:
        """Yield the resources of the joined file so far, each with its spans, in OTLP's JSON form."""
        for file in sorted(self.volume("collector").glob("joined*.jsonl")):
            whole, _, _ = file.read_text().rpartition("\n")  # what follows is just being written
            for line in whole.splitlines():
                yield from json.loads(line)["resourceSpans"]

    def volume(self, name: str) -> Path:
        """Return where a named volume is on this machine."""
        return self.docker.daemon.folder / "data" / "volumes" / f"{PROJECT}_{name}" / "_data"

    def logs(self, service: str) -> list[str]:
        """Return the lines of a service's log."""
        return self.compose(*DEMO, "logs", "--no-log-prefix", "--no-color", service).splitlines()

    def container(self, service: str) -> dict[str, Any]:
        """Return what Docker says of a service's container."""
        name = self.compose(*DEMO, "ps", "--all", "--quiet", service).strip()
        (shown,) = json.loads(self.docker.run("inspect", name))
        return dict(shown)

    def kill(self, *services: str) -> None:
        """End the first process of each service's container, as a crash would: Docker starts it again."""
        pids = [str(self.container(service)["State"]["Pid"]) for service in services]
        namespace = f"/proc/{self.docker.daemon.process_id}/ns/pid_for_children"
        subprocess.run(("nsenter", f"--pid={namespace}", "--", "kill", "-9", *pids), check=True)

    def up_with_demo(self) -> float:
        """Start everything, demo included, in an order of its own; return the seconds to the first reading."""
        started = time.monotonic()
        self.compose(*DEMO, "up", "--detach")
        wait_until(self.has_readings, timeout_s=UP_TIMEOUT_S, what="a reading in Prometheus", interval_s=0.2)
        return time.monotonic() - started

    def has_readings(self) -> bool:
        """Whether Prometheus answers, and has a reading."""
        try:
            return bool(self.query("gym_sandbox_memory_used_mib"))
        except requests.ConnectionError:
            return False

    def down(self) -> None:
        """Take everything away, volumes too."""
        self.compose(*DEMO, "down", "--volumes", "--timeout", "5")


@contextlib.contextmanager
def compose_stack(docker: DockerCli, settings: Mapping[str, str] | None = None) -> Iterator[ComposeStack]:
    """Give a stack of which nothing runs yet; take away what does in the end."""
    with InsideNetwork(docker.daemon.process_id) as network:
        stack = ComposeStack(docker, network, settings or {})
        try:
            yield stack
        finally:
            stack.down()
