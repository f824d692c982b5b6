"""Canary secrets through every fault, at the most talkative log level, and every command that prints: found nowhere."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import requests

from sandgauge_demo.deployment import DeploymentSettings, Route
from sandgauge_poller.tracking.database import STORE_FILE
from sandgauge_schemas import names
from support.fault_matrix import CONTROL_PLANE_FAULTS, ROUTES, break_control_plane
from support.feed import feed, start_span
from support.otlp_sink import Answer, OtlpSink
from support.running_poller import RunningPoller
from support.sandbox_records import SandboxRecords
from support.simulated_osb import osb_in_thread
from support.waiting import wait_until

pytestmark = pytest.mark.load

API_KEY = "canary-api-key-0f6b1d"
ACCESS_TOKEN = "canary-secure-access-77aa02"
INGEST_TOKEN = "canary-ingest-token-c2d913"
STATUS_TOKEN = "canary-status-token-51e6b8"
EXPORT_TOKEN = "canary-export-token-9a40f7"
DATABASE_URL = "canary-database-url-e8155c"
SECRETS = (API_KEY, ACCESS_TOKEN, INGEST_TOKEN, STATUS_TOKEN, EXPORT_TOKEN, DATABASE_URL)

ECHO = f'{{"code":"GENERAL::UNKNOWN_ERROR","message":"no connection with {API_KEY} and {ACCESS_TOKEN}"}}'
DAEMON_FAULTS = (
    {"status": 401, "body": f'{{"error":"{API_KEY}"}}'},
    {"status": 302, "headers": {"Location": f"http://{ACCESS_TOKEN}@127.0.0.1:9/{API_KEY}"}},
    {"status": 200, "body": f'{{"cpu_count":"{API_KEY}","{ACCESS_TOKEN}":1}}'},
    {"status": 200, "body": ECHO, "headers": {"Content-Encoding": ACCESS_TOKEN}},
    {"status": 500, "body": ECHO},
    {"drop": True},
    {"hang": True},
)

FAULT = "fault"
# A poller that cannot read metrics any more once there is a file of that name.
PROGRAM = """
from pathlib import Path

from sandgauge_poller.__main__ import main
from sandgauge_poller.reading.opensandbox import provider

parse_metrics = provider.parse_metrics


def parse_or_fail(body):
    if Path("{fault}").exists():
        raise RuntimeError("a fault of the poller's own")
    return parse_metrics(body)


provider.parse_metrics = parse_or_fail
main()
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Let a poller suffer everything; return what it left behind by where, and the deployments and the receiver."""
    settings = DeploymentSettings(api_key=API_KEY, proxy_needs_key=True, metrics_delay_s=0.02)
    with OtlpSink() as sink, osb_in_thread(settings) as direct, osb_in_thread(settings) as proxied:
        folder = tmp_path_factory.mktemp("canary-key")
        poller = RunningPoller(folder, program=("-c", PROGRAM.format(fault=folder / FAULT)))
        poller.configure(_config(poller, direct, proxied, sink))
        with poller:
            answers = _suffer(poller, (direct, proxied), SandboxRecords(sink).of)
            refusals = (503, 401, 400, 500, 302, 203)
            sink.script(*(Answer(status=code, body=EXPORT_TOKEN.encode()) for code in refusals))
            sink.wait_for(lambda seen: {one.status for one in seen.requests()} >= set(refusals))
            assert poller.complaints() == []
            printed = _printed(poller)
            _be_at_fault(poller)
        texts = {"log": poller.log_file.read_bytes(), **printed}
        texts |= {file.name: file.read_bytes() for file in (folder / "state").rglob("*") if file.is_file()}
        texts["telemetry"] = b"".join(request.body for request in sink.requests())
        texts["answers"] = b"".join(answers)
        yield texts, sink, direct, proxied


def _config(poller, direct, proxied, sink):
    def address(url):
        return url.removeprefix("http://")

    return {
        "ingest": {"endpoint": address(poller.endpoint), "auth": {"bearer_token": INGEST_TOKEN}},
        "status": {"endpoint": address(poller.status_url), "auth": {"bearer_token": STATUS_TOKEN}},
        "deployments": [
            {"name": "direct", "endpoint": direct.url, "api_key": API_KEY, "use_server_proxy": False},
            {"name": "proxied", "endpoint": proxied.url, "api_key": API_KEY, "use_server_proxy": True},
        ],
        "sampling": {"collection_interval": "500ms", "min_interval": "500ms"},
        "allocation": {"refresh_interval": "500ms"},
        "export": {
            "endpoint": sink.endpoint,
            "headers": {"Authorization": f"Bearer {EXPORT_TOKEN}"},
            "retry_on_failure": {"initial_interval": "100ms", "max_interval": "200ms"},
        },
        "logs": {"level": "debug"},
    }


def _suffer(poller, osbs, readings):
    for name in CONTROL_PLANE_FAULTS:
        for osb in osbs:
            break_control_plane(osb, name)
        _start_and_read(poller, osbs, readings)
    for osb in osbs:
        for route in (*ROUTES, Route.PROXY):
            osb.fault(route, status=500, body=ECHO, content_type="application/json")
    _start_and_read(poller, osbs, readings)
    for osb in osbs:
        osb.clear_faults()
    started = [_start(poller, osb, fault) for osb in osbs for fault in (*DAEMON_FAULTS, None)]
    wait_until(lambda: all(readings(id_) for id_ in started), timeout_s=60, what="readings of sick daemons")
    return [*_refused_requests(poller), *_status_pages(poller)]


def _refused_requests(poller):
    """Yield what the ingest port says to requests that it cannot take, some of which hold its token."""
    bodies = (
        (b"\xff", INGEST_TOKEN),
        (b"\x00" * 100, INGEST_TOKEN),
        (INGEST_TOKEN.encode(), INGEST_TOKEN),
        (b"", f"not-{INGEST_TOKEN}"),
    )
    for content_type in ("application/x-protobuf", "application/json", INGEST_TOKEN):
        for body, token in bodies:
            headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
            answer = requests.post(f"{poller.endpoint}/v1/traces", data=body, headers=headers, timeout=60)
            assert answer.status_code >= 400
            yield _all_of(answer)


def _status_pages(poller):
    for token in (STATUS_TOKEN, f"not-{STATUS_TOKEN}"):
        for path in ("healthz", "readyz", "metrics"):
            headers = {"Authorization": f"Bearer {token}"}
            yield _all_of(requests.get(f"{poller.status_url}/{path}", headers=headers, timeout=60))


def _all_of(answer):
    return str(answer.headers).encode() + answer.content


def _start_and_read(poller, osbs, readings):
    started = [_start(poller, osb) for osb in osbs]
    allocation = names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION
    wait_until(
        lambda: all(readings(id_) and readings(id_, allocation) for id_ in started),
        timeout_s=60,
        what="failed readings",
    )


def _start(poller, osb, daemon_fault=None):
    environment = {"DATABASE_URL": f"postgres://user:{DATABASE_URL}@host/"}
    sandbox_id = osb.create(
        limits={"cpu": "500m", "memory": "128Mi"}, secure_access_token=ACCESS_TOKEN, environment=environment
    )
    if daemon_fault is not None:
        osb.fault(Route.EXECD, sandbox_id, **daemon_fault)
    scope = {names.NEMO_GYM_SANDBOX_SCOPE: osb.url}
    feed(poller.endpoint, start_span(sandbox_id, attributes=scope), token=INGEST_TOKEN)
    return sandbox_id


def _printed(poller):
    """Return what the commands say of the configuration and of a broken one; a second poller is refused with either."""
    broken = poller.config_file.with_name("broken.yaml")
    text = poller.config_file.read_text()
    broken.write_text(text.replace("level: debug", "level: shout").replace("api_key:", "api-key:"))

    def say(command, file):
        whole = [sys.executable, "-m", "sandgauge_poller", *command.split(), "--config", str(file)]
        done = subprocess.run(whole, capture_output=True, check=False, timeout=60)
        return f"{command} {file.name}", done.stdout + done.stderr

    commands = product(
        ("check", "check --print-config", "doctor", "doctor --json", "run", "read unknown-1", "--debug read unknown-1"),
        (poller.config_file, broken),
    )
    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(say, *zip(*commands, strict=True)))


def _be_at_fault(poller):
    """Let the poller err itself, which it logs with a traceback."""
    poller.config_file.with_name(FAULT).touch()
    wait_until(lambda: b"Traceback" in poller.log_file.read_bytes(), timeout_s=60, what="a traceback in the log")


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_found_anywhere(scene, secret):
    texts, *_ = scene
    assert [where for where, text in texts.items() if secret.encode() in text] == []


def test_there_was_something_to_find_it_in(scene):
    texts, *_ = scene
    assert b'"level": "debug"' in texts["log"]
    assert b"Traceback" in texts["log"]
    assert b"check its api_key" in texts["log"]
    assert b"ok: 2 deployments" in texts["check sandgauge.yaml"]
    assert b"collection_interval" in texts["check --print-config sandgauge.yaml"]
    assert b"api-key" in texts["check broken.yaml"]
    assert texts["doctor sandgauge.yaml"]
    assert texts["--debug read unknown-1 sandgauge.yaml"]
    assert b"is using this folder" in texts["run sandgauge.yaml"]
    assert texts[STORE_FILE]
    assert texts["telemetry"]
    assert b"sandgauge_poller_reads" in texts["answers"]


def test_each_secret_went_to_its_own_origin_alone(scene):
    _, sink, direct, proxied = scene
    for osb in (direct, proxied):
        asked = [request for route in (*ROUTES, Route.PROXY) for request in osb.requests(route)]
        assert asked
        assert all(request.headers["open-sandbox-api-key"] == API_KEY for request in asked)
        for request in osb.requests(Route.EXECD):
            assert API_KEY not in str(request.headers)
        assert not any(EXPORT_TOKEN in str(request.headers) for request in osb.requests())
    assert any(
        request.headers.get("opensandbox-secure-access") == ACCESS_TOKEN for request in direct.requests(Route.EXECD)
    )
    for request in sink.requests():
        assert request.headers["Authorization"] == f"Bearer {EXPORT_TOKEN}"
        assert not any(secret in str(request.headers) for secret in SECRETS if secret != EXPORT_TOKEN)
