"""`python -m support.address_trap FOLDER WAY`, in a network namespace of its own: a poller among hostile addresses.

Every address of both IP versions is local here, and canaries listen at the usual ports of all of them, name service
included, so whatever the poller calls answers and is seen. Its control plane and daemon are at `HOST`; the telemetry
receiver and the feed at 127.0.0.1. `WAY` is the deployment's `use_server_proxy`, `false` or `auto`. The result is
written to `FOLDER/result.json`.
"""

import json
import secrets
import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from sandgauge_schemas import names
from support import otlp_json
from support.feed import feed, rollout_span, start_span, stop_span
from support.hostile_addresses import ADDRESSES, IN_AN_ENDPOINT
from support.otlp_sink import Answer, OtlpSink
from support.running_poller import RunningPoller
from support.sandbox_records import SAMPLE
from support.waiting import wait_until

HOST = "10.1.2.3"
KEY = "canary-key-5f0c2e9a7d"
CANARY_PORTS = (22, 25, 53, 80, 443, 2375, 5000, 6379, 8000, 8080, 9090, 10250, 44772)
REDIRECTS = (300, 301, 302, 303, 304, 305, 306, 307, 308)
ALONE = (names.NEMO_GYM_SANDBOX_SCOPE, names.NEMO_GYM_SANDBOX_ID, names.NEMO_GYM_SANDBOX_PROVIDER)
"""Attributes that hold a hostile address each in a span of its own, since they decide what becomes of the span."""

TOGETHER = sorted(
    value
    for constant, value in vars(names).items()
    if constant.startswith(("NEMO_", "SERVICE_", "OTEL_")) and isinstance(value, str) and value not in ALONE
)
"""Every other attribute that has a name; they hold one hostile address all at once."""

FULL = tuple(f"full-{number}" for number in range(len(ADDRESSES)))
"""The sandboxes of such spans."""

_METRICS = b'{"cpu_count":2,"cpu_used_pct":1,"mem_total_mib":2048,"mem_used_mib":90}'
_INSPECT = b"Container ID:   41477b23ddb3\nStatus:         running\n\nResources:\n  CPU:          1.00 cores"


@dataclass
class Result:
    """What happened: every call to a canary, where the key was seen, and what the poller said of its readings."""

    canary_calls: list[str] = field(default_factory=list)
    canaries_work: bool = False
    key_at_control_plane: int = 0
    key_elsewhere: list[str] = field(default_factory=list)
    daemon_calls: int = 0
    redirects_served: dict[str, list[int]] = field(default_factory=dict)
    error_types: dict[str, list[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


class Canaries:
    """Listeners at every address, which keep who was called and what was said."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bytes]] = []
        for port in CANARY_PORTS:
            self._serve(_V6Server(("::", port), self._handler(), bind_and_activate=True))
        self._serve(_DatagramServer(("::", 53), self._handler()))

    def _serve(self, server: socketserver.BaseServer) -> None:
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        calls = self.calls

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                if isinstance(self.request, tuple):
                    calls.append(("udp 53", self.request[0]))
                    return
                called = "tcp {}:{}".format(*self.request.getsockname()[:2])
                calls.append((called, b""))
                self.request.settimeout(2)
                try:
                    calls.append((called, self.request.recv(65536)))
                    self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(_METRICS), _METRICS))
                except OSError:
                    pass

        return Handler


class _V6Server(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True
    daemon_threads = True


class _DatagramServer(socketserver.ThreadingUDPServer):
    address_family = socket.AF_INET6
    daemon_threads = True


class _WebServer(ThreadingHTTPServer):
    request_queue_size = 512

    def server_bind(self) -> None:
        """Bind without asking a name service for its own name, as the base class does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # both are text

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a caller that went away."""


class Deployment:
    """The configured control plane, which names hostile endpoints and redirects, and one honest address of a daemon.

    What it says of a sandbox is the sandbox's `plan`: `endpoint` to name, `redirect` of which route, `location` and
    `status` of that.
    """

    def __init__(self, result: Result) -> None:
        self._result = result
        self.plans: dict[str, dict[str, Any]] = {}
        self.control_plane = self._serve(self._control_plane)
        self.daemon = self._serve(self._daemon)

    def _serve(self, answer: Any) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, headers = answer(self.path, str(self.headers))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        server = _WebServer((HOST, 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"{HOST}:{server.server_port}"

    def _control_plane(self, path: str, headers: str) -> tuple[int, bytes, dict[str, str]]:
        self._result.key_at_control_plane += KEY in headers
        sandbox_id, _, rest = path.removeprefix("/v1/sandboxes/").partition("/")
        plan = self.plans.get(sandbox_id, {})
        route = rest.partition("/")[0] or "get"
        if plan.get("redirect") == route:
            return self._redirect(plan, route)
        if route == "endpoints":
            return 200, json.dumps(plan.get("endpoint", {"endpoint": self.daemon})).encode(), {}
        if route == "diagnostics":
            return 200, _INSPECT, {"Content-Type": "text/plain"}
        if route == "proxy":
            return 200, _METRICS, {}
        return 200, json.dumps({"id": sandbox_id, "status": {"state": "Running"}}).encode(), {}

    def _daemon(self, path: str, headers: str) -> tuple[int, bytes, dict[str, str]]:
        self._result.daemon_calls += 1
        if KEY in headers:
            self._result.key_elsewhere.append("daemon")
        plan = self.plans.get(path.strip("/").partition("/")[0], {})
        return self._redirect(plan, "daemon") if plan.get("redirect") == "daemon" else (200, _METRICS, {})

    def _redirect(self, plan: dict[str, Any], route: str) -> tuple[int, bytes, dict[str, str]]:
        self._result.redirects_served.setdefault(route, []).append(plan["status"])
        return plan["status"], b"", {"Location": plan["location"].encode().decode("latin-1")}


def main(folder: Path, way: str) -> None:
    """Set the trap, run the poller in it, and write what was seen."""
    for command in (
        "ip link set lo up",
        "ip route add local 0.0.0.0/0 dev lo",
        "ip -6 route add local ::/0 dev lo",
    ):
        subprocess.run(command.split(), check=True)
    result = Result()
    canaries = Canaries()
    deployment = Deployment(result)
    spans = _spans(deployment)
    with OtlpSink() as sink:
        poller = RunningPoller(folder, _config(deployment, sink.endpoint, way))
        with poller:
            feed(poller.endpoint, *spans, resource=dict.fromkeys(TOGETHER, ADDRESSES[0]))
            expected = {*deployment.plans, *FULL}
            wait_until(lambda: expected <= _outcomes(sink).keys(), timeout_s=150, what="a reading of every sandbox")
            # A Collector that redirects loses records, so only now.
            statuses = (301, 302, 303, 307, 308)
            sink.script(*(Answer(status=code, headers={"Location": "http://127.0.0.1:8080/"}) for code in statuses))
            sink.wait_for(lambda seen: {one.status for one in seen.requests()} >= set(statuses))
        result.complaints = poller.complaints()
        result.error_types = _outcomes(sink)
        said = [(f"{one.path} to the Collector", one.body + str(one.headers).encode()) for one in sink.requests()]
    said += [(file.name, file.read_bytes()) for file in (poller.log_file, *(folder / "state").iterdir())]
    said += canaries.calls
    result.canary_calls = [f"{where} {text[:80]!r}" for where, text in canaries.calls]
    result.key_elsewhere += [where for where, text in said if KEY.encode() in text]
    result.canaries_work = _try(canaries)
    (folder / "result.json").write_text(json.dumps(asdict(result)))


def _config(deployment: Deployment, collector: str, way: str) -> dict[str, Any]:
    return {
        "deployments": [
            {
                "name": "training",
                "endpoint": f"http://{deployment.control_plane}",
                "api_key": KEY,
                "use_server_proxy": way,
                # As fast as the servers here can answer on a busy machine.
                "max_requests_per_second": 200,
                "max_concurrent_proxied_reads": 50,
            }
        ],
        "sampling": {"collection_interval": "5s"},
        "export": {"endpoint": collector, "retry_on_failure": {"initial_interval": "100ms"}},
        "logs": {"level": "debug"},
    }


def _spans(deployment: Deployment) -> list[dict[str, Any]]:
    """Return hostile start spans, and plan what the control plane says of harmless-looking ones."""
    spans = [
        start_span(f"span-{number}-{key.rpartition('.')[2]}", attributes={key: address})
        for number, address in enumerate(ADDRESSES)
        for key in ALONE
    ]
    for sandbox_id, address in zip(FULL, ADDRESSES, strict=True):
        spans += _spans_full_of(address, sandbox_id)
    plans = deployment.plans
    for number, address in enumerate(IN_AN_ENDPOINT):
        plans[f"endpoint-{number}"] = {"endpoint": {"endpoint": address}}
    for number, name in enumerate(("Host", "Authorization", "Location", "X-A\r\nHost", "Proxy-Authorization")):
        headers = {name: "169.254.169.254"}
        plans[f"header-{number}"] = {"endpoint": {"endpoint": deployment.daemon, "headers": headers}}
    for status in REDIRECTS:
        for route in ("diagnostics", "endpoints", "daemon", "proxy"):
            plans[f"redirect-{status}-{route}"] = {
                "redirect": route,
                "status": status,
                "location": ADDRESSES[(status * 7) % len(ADDRESSES)].split("\r")[0] or "http://169.254.169.254/",
                # Nothing may be called directly where the proxy is to be reached.
                "endpoint": {
                    "endpoint": IN_AN_ENDPOINT[0]
                    if route == "proxy"
                    else f"{deployment.daemon}/redirect-{status}-{route}"
                },
            }
    return spans + [start_span(sandbox_id) for sandbox_id in plans]


def _spans_full_of(address: str, sandbox_id: str) -> list[dict[str, Any]]:
    """Return a span of each kind with the address in every attribute and wherever else a text fits."""
    trace_id = secrets.token_hex(16)
    everywhere = otlp_json.key_values(dict.fromkeys(TOGETHER, address))
    request_id = {names.NEMO_GYM_SANDBOX_REQUEST_ID: sandbox_id}
    request = otlp_json.span(names.SPAN_GYM_SANDBOX_REQUEST, request_id, trace_id=trace_id)
    start, stop = start_span(sandbox_id, trace_id=trace_id), stop_span(f"{sandbox_id}-stopped", trace_id=trace_id)
    made = (request, start, stop, rollout_span(trace_id, address))
    elsewhere = {"traceState": address, "status": {"message": address}, "events": [{"name": address}]}
    return [{**one, "attributes": [*one["attributes"], *everywhere], **elsewhere} for one in made]


def _outcomes(sink: OtlpSink) -> dict[str, list[str]]:
    """Return what came of each sandbox's readings; that one took too long is the busy machine's doing."""
    found: dict[str, list[str]] = {}
    for span in sink.spans(SAMPLE):
        if (outcome := span.attributes.get(names.ERROR_TYPE, "ok")) != names.ErrorType.TIMEOUT:
            found.setdefault(span.attributes[names.NEMO_GYM_SANDBOX_ID], []).append(outcome)
    return found


def _try(canaries: Canaries) -> bool:
    """Call a few hostile addresses, as the poller must not, and tell whether that is seen."""
    before = len(canaries.calls)
    for address in ("169.254.169.254", "fd00:ec2::254", "127.0.0.7"):
        with socket.create_connection((address, 80), 5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            connection.recv(1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as question:
        question.sendto(b"?", ("10.255.255.53", 53))

    def is_seen() -> bool:
        seen = " ".join(where for where, _ in canaries.calls[before:])
        return all(address in seen for address in ("169.254.169.254", "fd00:ec2::254", "127.0.0.7", "udp 53"))

    with suppress(TimeoutError):
        wait_until(is_seen, timeout_s=30, what="the calls")
    return is_seen()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
