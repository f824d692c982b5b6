"""`python -m bench.fleet`: the simulated deployment's answers behind a server that costs next to nothing.

What it says comes from `sandgauge_demo.deployment`, on Kubernetes: an address of its own for each sandbox, from
127.1.0.0 on, all served by one listener. Without faults, journal and frameworks it carries thousands of reads a second
on part of a core. `POST /_fleet/create` and `/_fleet/delete` take lists of sandboxes; `/_fleet/counts` tells what was
asked so far.
"""

import asyncio
import gc
import ipaddress
import json
import resource
from collections import Counter
from typing import Any

from bench.http_server import HttpConnection, serve, target_of
from sandgauge_demo.deployment import Runtime, SandboxSpec
from sandgauge_demo.deployment.bodies import endpoint_json, not_found, sandbox_json
from sandgauge_demo.deployment.execd import CONTENT_TYPE, metrics_body
from sandgauge_demo.deployment.inspect_text import inspect_text
from sandgauge_demo.deployment.model import SimulatedNode
from sandgauge_demo.deployment.registry import SimulatedDeployment, UnknownSandboxError
from sandgauge_poller.reading.clock import SYSTEM_CLOCK

METRICS_DELAY_S = 1.0
"""execd measures its CPU for a second before it answers."""

_FIRST_ADDRESS = ipaddress.IPv4Address("127.1.0.1")
_NODES = 64
_READ = b"GET /metrics "


class Fleet:
    """The sandboxes, where they are reached, and how often each kind of question came."""

    def __init__(self) -> None:
        nodes = tuple(SimulatedNode(name=f"node-{number}") for number in range(_NODES))
        self.deployment = SimulatedDeployment(
            clock=lambda: SYSTEM_CLOCK.now_ns() / 1e9, runtime=Runtime.KUBERNETES, nodes=nodes
        )
        self.counts: Counter[str] = Counter()
        self.read: set[str] = set()
        self.hanging: set[str] = set()
        self.port = 0
        self.connections: dict[str, Connection] = {}
        self._addresses: dict[str, str] = {}
        self._sandboxes: dict[str, str] = {}

    def create(self, sandbox_id: str, *, hangs: bool) -> str:
        """Create a sandbox and return its daemon's address with the port."""
        limits = {"cpu": "500m", "memory": "1Gi"}
        self.deployment.create(SandboxSpec(id=sandbox_id, limits=limits, requests=limits))
        address = str(_FIRST_ADDRESS + len(self._addresses))
        self._addresses[sandbox_id] = address
        self._sandboxes[address] = sandbox_id
        if hangs:
            self.hanging.add(sandbox_id)
        return f"{address}:{self.port}"

    def delete(self, sandbox_id: str) -> None:
        """Remove a sandbox, and its connection with it."""
        self.deployment.delete(sandbox_id)
        if connection := self.connections.pop(sandbox_id, None):
            connection.transport.abort()

    def at(self, address: str) -> str | None:
        """Return the sandbox that lives at an address."""
        sandbox_id = self._sandboxes.get(address)
        return sandbox_id if sandbox_id is not None and self.deployment.find(sandbox_id) else None

    def metrics(self, sandbox_id: str, read_at: float) -> bytes:
        """Return one reading."""
        sandbox = self.deployment.get(sandbox_id)
        return metrics_body(sandbox, deployment_started_at=self.deployment.started_at, read_at=read_at)

    def control_plane(self, path: str) -> tuple[bytes, str]:
        """Answer the control plane's routes that a poller asks; raises UnknownSandboxError."""
        sandbox_id, _, rest = path.removeprefix("/v1/sandboxes/").partition("/")
        sandbox = self.deployment.get(sandbox_id)
        if rest == "diagnostics/inspect":
            self.counts["inspect"] += 1
            return inspect_text(sandbox, {}).encode(), "text/plain; charset=utf-8"
        if rest == "":
            self.counts["sandbox"] += 1
            return json.dumps(sandbox_json(sandbox)).encode(), "application/json"
        self.counts["endpoint"] += 1
        where = endpoint_json(f"{self._addresses[sandbox_id]}:{self.port}", {})
        return json.dumps(where).encode(), "application/json"


class Connection(HttpConnection):
    """A client of the control plane or of one sandbox's daemon, by the address that it called."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet
        self._sandbox_id: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find out who was called, all on one port; nobody listens where no sandbox is."""
        super().connection_made(transport)
        address, self._fleet.port = self.transport.get_extra_info("sockname")[:2]
        if address == "127.0.0.1":
            return
        self._sandbox_id = self._fleet.at(address)
        if self._sandbox_id is None:
            self.transport.abort()
        else:
            self._fleet.connections[self._sandbox_id] = self

    def on_request(self, head: bytes, body: bytes) -> None:
        """Answer the control plane at once, and a reading after its second."""
        if self._sandbox_id is not None and head.startswith(_READ):
            self._fleet.counts["read"] += 1
            if self._sandbox_id not in self._fleet.hanging:
                read_at = self._fleet.deployment.clock()
                asyncio.get_running_loop().call_later(METRICS_DELAY_S, self._answer_reading, self._sandbox_id, read_at)
            return
        path = target_of(head)
        if path.startswith("/_fleet/"):
            self.answer(json.dumps(self._steered(path.removeprefix("/_fleet/"), json.loads(body or b"null"))).encode())
            return
        try:
            content, content_type = self._fleet.control_plane(path)
        except UnknownSandboxError as error:
            unknown = not_found(Runtime.KUBERNETES, str(error))
            assert isinstance(unknown.body, bytes)
            self.answer(unknown.body, status=unknown.status)
        else:
            self.answer(content, content_type=content_type)

    def _answer_reading(self, sandbox_id: str, read_at: float) -> None:
        fleet = self._fleet
        if not self.transport.is_closing():
            self.answer(fleet.metrics(sandbox_id, read_at), content_type=CONTENT_TYPE)
            fleet.counts["answered"] += 1
            fleet.read.add(sandbox_id)

    def _steered(self, what: str, given: Any) -> Any:
        fleet = self._fleet
        match what:
            case "create":
                return [fleet.create(sandbox_id, hangs=given["hangs"]) for sandbox_id in given["ids"]]
            case "delete":
                for sandbox_id in given["ids"]:
                    fleet.delete(sandbox_id)
                return None
            case "forget":
                return fleet.read.clear()
            case _:  # hanging ones are never read
                unread = len(fleet.deployment.newest_first()) - len(fleet.read) - len(fleet.hanging)
                return {**fleet.counts, "unread": unread}


def main() -> None:
    """Serve until SIGTERM."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    fleet = Fleet()
    serve(lambda: Connection(fleet), every_loopback_address=True)


if __name__ == "__main__":
    main()
