"""The shipped compose file without a demo: what works with nothing configured, and what is said of what is wrong."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import requests

from sandgauge_demo.deployment.control import PREFIX
from sandgauge_schemas import names
from support.build_cache import REPOSITORY
from support.compose_stack import ComposeStack
from support.documents import code_block, document
from support.feed import GYM, start_span
from support.otlp_json import from_resource, traces
from support.waiting import wait_until

pytestmark = pytest.mark.integration

OSB_PORT = 18080
OSB = f"http://host.docker.internal:{OSB_PORT}"
KEY = "invented-key"
ACCEPTED = 'sandgauge_poller_spans_total{outcome="accepted"'
REST = ("collector", "poller", "jaeger", "prometheus")
HOLD_PORT = """
import socket, sys, time
held = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def stack(plain_stack: ComposeStack) -> ComposeStack:
    plain_stack.compose("up", "--detach", "--wait")
    return plain_stack


@pytest.fixture
def osb(stack: ComposeStack) -> Iterator[subprocess.Popen[bytes]]:
    """A simulated OpenSandbox on the machine itself, beside Docker; it asks for a key."""
    command = (sys.executable, "-m", "sandgauge_demo.deployment", "--host", "0.0.0.0", "--port", str(OSB_PORT))
    with subprocess.Popen(
        stack.docker.daemon.inside(*command, "--api-key-env", "OSB_KEY", "--proxy-needs-key", "--control"),
        env={"OSB_KEY": KEY},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def held_port(stack: ComposeStack, port: str) -> Iterator[None]:
    """Hold a port of the machine's loopback, as another program would."""
    command = (sys.executable, "-c", HOLD_PORT, port)
    with subprocess.Popen(stack.docker.daemon.inside(*command), stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            holder.stdout.readline()
            yield
        finally:
            holder.kill()


def bring_up(stack: ComposeStack, *arguments: str, **settings: str) -> None:
    """Start what the arguments of Compose say, and wait until poller and Collector take requests."""
    started = replace(stack, settings=settings)
    started.compose(*arguments)

    def answers() -> bool:
        try:
            ready = started.get("status", "/readyz").status_code == 200
            return ready and started.request("POST", "otlp_http", "/v1/traces", json={}).status_code == 200
        except requests.ConnectionError:
            return False

    wait_until(answers, timeout_s=90, what="poller and Collector", interval_s=0.2)


def tell_of(stack: ComposeStack, sandbox_id: str) -> None:
    """Send the start of a sandbox as Gym does."""
    request = traces(from_resource(GYM, start_span(sandbox_id)))
    assert stack.request("POST", "otlp_http", "/v1/traces", json=request).status_code == 200


def create(stack: ComposeStack, sandbox_id: str) -> None:
    """Bring a sandbox up and tell of it."""
    made = stack.network.request("POST", f"http://127.0.0.1:{OSB_PORT}{PREFIX}/sandboxes", json={"id": sandbox_id})
    assert made.status_code == 201
    tell_of(stack, sandbox_id)


def messages(stack: ComposeStack, service: str = "poller") -> list[str]:
    """Return what a service says, one line of JSON each, in plain words."""
    return [json.loads(line)["message"] if line.startswith("{") else line for line in stack.logs(service)]


def wait_for_one_line(stack: ComposeStack, *parts: str, service: str = "poller") -> None:
    """Wait until a service has said something with all these parts, and hold that it says it in one way."""

    def said() -> set[str]:
        return {message for message in messages(stack, service) if all(part in message for part in parts)}

    wait_until(lambda: bool(said()), timeout_s=60, what=f"{service} to say {parts}", interval_s=0.5)
    assert len(said()) == 1


def is_running(stack: ComposeStack, *services: str) -> bool:
    """Whether all these services run."""
    return set(services) <= set(stack.compose("ps", "--services", "--status", "running").split())


def test_without_an_opensandbox_everything_is_up_and_one_line_says_that_there_is_none(stack):
    assert [line for line in messages(stack) if "no deployment is configured" in line] == [
        "no deployment is configured: spans are taken in, and no sandbox is read"
    ]
    tell_of(stack, "not-read-1")
    wait_until(lambda: bool(stack.traces(GYM[names.SERVICE_NAME])), timeout_s=60, what="the span in the traces backend")
    wait_until(lambda: ACCEPTED in stack.get("status", "/metrics").text, timeout_s=60, what="the span at the poller")


def test_a_volume_that_cannot_be_written_is_named_with_its_cure(stack, tmp_path):
    folder = Path(tmp_path, "of-root")
    folder.mkdir(mode=0o755)
    override = Path(tmp_path, "override.yml")
    volumes = {"poller": "/var/lib/sandgauge", "collector": "/var/lib/otelcol"}
    services = {name: {"volumes": [f"{folder}:{path}"]} for name, path in volumes.items()}
    override.write_text(json.dumps({"services": services}))
    files = ("--file", "docker-compose.yml", "--file", str(override))
    try:
        stack.compose(*files, "up", "--detach", "--no-deps", "poller", "collector")
        wait_for_one_line(stack, "Error: /var/lib/sandgauge: cannot be written", "let user id 10002 write there")
        wait_for_one_line(stack, "Error: ", "mkdir /var/lib/otelcol/queues: permission denied", service="collector")
        assert is_running(stack, "jaeger", "prometheus", "grafana")
    finally:
        bring_up(stack, "up", "--detach")


def test_a_port_that_is_taken_is_named_and_another_takes_its_place(stack):
    stack.compose("rm", "--stop", "--force", "collector")
    port = stack.url("otlp_http").rpartition(":")[2]
    with held_port(stack, port):
        failed = stack.attempt("up", "--detach", "collector")
        assert failed.returncode != 0
        (line,) = [line for line in failed.stderr.splitlines() if "address already in use" in line]
        assert f"127.0.0.1:{port}" in line
        assert is_running(stack, "poller", "jaeger", "prometheus", "grafana")
        bring_up(stack, "up", "--detach", SANDGAUGE_OTLP_HTTP_PORT="14318")
    bring_up(stack, "up", "--detach")


def test_without_a_name_server_the_poller_starts_at_once_all_the_same(stack):
    """It asks whether a demo runs, by a name that others than Docker would have to deny; here nobody answers."""
    began = datetime.fromisoformat(stack.container("poller")["State"]["StartedAt"])
    first = next(json.loads(line)["time"] for line in stack.logs("poller") if line.startswith("{"))
    assert (datetime.fromisoformat(first) - began).total_seconds() < 15


def test_a_configuration_file_that_is_not_there_is_named_and_not_made(stack):
    failed = stack.attempt("up", "--detach", "poller", settings={"SANDGAUGE_CONFIG_FILE": "absent.yaml"})
    assert failed.returncode != 0
    assert f"does not exist: {REPOSITORY / 'absent.yaml'}" in failed.stderr.splitlines()[-1]
    assert not (REPOSITORY / "absent.yaml").exists()
    bring_up(stack, "up", "--detach")


def test_a_damaged_queue_is_put_aside_by_the_documented_command(stack):
    stack.compose("stop", "collector")
    queue = stack.volume("collector") / "queues" / "exporter_otlp_http_poller_traces"
    content = queue.read_bytes()
    queue.write_bytes(content[:8192] + bytes(len(content) - 8192))
    stack.compose("start", "collector")
    wait_for_one_line(stack, "panic: assertion failed: Page ", service="collector")
    stack.docker.shell(code_block(document("compose.md"), "sh", "queues-damaged"))
    (aside,) = stack.volume("collector").glob("queues-damaged-*")
    assert (aside / queue.name).stat().st_size == len(content)
    bring_up(stack, "up", "--detach")
    tell_of(stack, "after-damage-1")


def test_published_with_a_token_ingest_asks_for_it_and_the_collector_shows_it(stack, tmp_path):
    shipped = (REPOSITORY / "docker-compose.yml").read_text()
    (commented,) = [line for line in shipped.splitlines() if "SANDGAUGE_INGEST_PORT" in line]
    published = Path(tmp_path, "published.yml")
    published.write_text(shipped.replace(commented, commented.replace("#", "")))
    files = ("--file", str(published), "--project-directory", str(REPOSITORY))
    with_token = {"SANDGAUGE_POLLER_TOKEN": "invented-token"}
    for command in code_block(document("compose.md"), "sh", "stop poller").split("&&"):
        stack.compose(*files, *command.split()[2:], settings=with_token)
    bring_up(stack, *files, "up", "--detach", **with_token)
    assert stack.request("POST", "ingest", "/v1/traces", json={}).status_code == 401
    shown = {"Authorization": "Bearer invented-token"}
    assert stack.request("POST", "ingest", "/v1/traces", json={}, headers=shown).status_code == 200
    tell_of(stack, "with-token-1")
    wait_until(lambda: ACCEPTED in stack.get("status", "/metrics").text, timeout_s=60, what="the Collector's span")


def test_an_opensandbox_of_this_machine_is_read_and_a_wrong_key_or_none_at_all_is_said(stack, osb):
    bring_up(stack, "up", "--detach", OPENSANDBOX_ENDPOINT=OSB, OPENSANDBOX_API_KEY="x")
    tell_of(stack, "wrong-key-1")
    wait_for_one_line(stack, "the control plane refused the poller; check its api_key")

    bring_up(stack, "up", "--detach", OPENSANDBOX_ENDPOINT=OSB, OPENSANDBOX_API_KEY=KEY)
    create(stack, "host-1")
    reading = 'gym_sandbox_memory_used_mib{nemo_gym_sandbox_id="host-1"}'
    wait_until(lambda: bool(stack.query(reading)), timeout_s=60, what="a reading", interval_s=0.5)

    osb.kill()
    osb.wait()
    wait_for_one_line(stack, "the control plane gives no answer (connection)")
    assert stack.get("status", "/readyz").status_code == 200
    assert is_running(stack, "grafana", *REST)
