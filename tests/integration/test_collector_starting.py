"""What keeps a real Collector from starting, what it says then, and that the cures of docs/collector.md are cures."""

import os
import re
import shutil
import socket
import subprocess

import pytest

from sandgauge_demo.collector import CollectorError, Destinations, RunningCollector
from sandgauge_schemas.names import SPAN_GYM_SANDBOX_START
from support.collector_secrets import make_secrets
from support.documents import code_block, document, section
from support.otlp_json import from_resource, span, traces
from support.otlp_sink import OtlpSink
from support.real_collector import NOBODY, SECURITY, collector, config_files, real_collector, send
from support.real_parts import require

pytestmark = pytest.mark.integration

PAGE = section(document("collector.md"), "When it does not start")
QUEUE = "queues/exporter_otlp_http_poller_traces"


def cures():
    """Return the page's table: what the Collector says, as a pattern, and the cure of it."""
    rows = re.findall(r"^\| (`.*?) \| .*? \| (.*?) \|$", PAGE, re.MULTILINE)
    return {re.escape(words).replace("…", ".*"): cure for says, cure in rows for words in re.findall("`(.*?)`", says)}


def cure_of_failed_start(running):
    """Start it in vain, and return the one cure that the page has for what it says."""
    with pytest.raises(CollectorError):
        running.start()
    log = running.log_file.read_text()
    (cure,) = {cure for says, cure in cures().items() if re.search(says, log)}
    return cure


def noise(content):
    return b"noise" * (len(content) // 5)


def head_alone(content):
    return content[:8192]


def zeros_after_the_head(content):
    return content[:8192] + bytes(len(content) - 8192)


@pytest.mark.parametrize("damage", [noise, head_alone, zeros_after_the_head])
def test_damaged_queue_file_is_put_aside_by_one_documented_command(tmp_path, damage):
    command = code_block(PAGE, "sh", "queues-damaged")
    start = traces(from_resource({}, span(SPAN_GYM_SANDBOX_START)))
    with OtlpSink() as poller:
        running = collector(tmp_path, poller=poller.endpoint)
        with running:
            assert send(running, start) == 200
            running.kill()
        queue = tmp_path / QUEUE
        queue.write_bytes(damage(queue.read_bytes()))
        assert cure_of_failed_start(running) == "the command below"
        damaged = queue.read_bytes()
        environment = {"PATH": os.environ["PATH"], "OTELCOL_STATE_DIR": str(tmp_path)}
        subprocess.run(["/bin/sh", "-ec", command], env=environment, check=True)
        (aside,) = tmp_path.glob("queues-damaged-*")
        assert (aside / queue.name).read_bytes() == damaged
        received = len(poller.spans())
        with running:
            assert send(running, start) == 200
            poller.wait_for(lambda sink: len(sink.spans()) > received)


def test_second_collector_on_the_same_folder_does_not_start(tmp_path):
    with collector(tmp_path) as first:
        assert cure_of_failed_start(collector(tmp_path)) == "stop it, or give each its own folder"
        assert send(first, traces(from_resource({}, span(SPAN_GYM_SANDBOX_START)))) == 200


def test_port_that_is_taken_is_one_clear_error(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        running = collector(tmp_path, settings={"OTLP_HTTP_PORT": str(port)})
        assert cure_of_failed_start(running) == "set its variable"
    errors = [line for line in running.log_file.read_text().splitlines() if line.startswith("Error:")]
    assert [f"127.0.0.1:{port}" in line for line in errors] == [True]


def test_folder_that_cannot_be_written_is_named(tmp_path):
    """Root may write anywhere, so a run as root gives that right up."""
    setpriv = require("setpriv", shutil.which("setpriv"), "it takes rights from root (Debian: package util-linux)")
    configuration = config_files()
    folder = tmp_path / "state"
    folder.mkdir(mode=0o555)
    unprivileged = tmp_path / "otelcol"
    drop = f"{setpriv} --bounding-set=-dac_override" if os.geteuid() == 0 else ""
    unprivileged.write_text(f'#!/bin/sh\nexec {drop} {real_collector(configuration)} "$@"\n')
    unprivileged.chmod(0o755)
    running = RunningCollector(
        unprivileged,
        configuration,
        directory=tmp_path,
        destinations=Destinations(poller=NOBODY, traces=NOBODY, metrics=NOBODY),
        settings={"OTELCOL_STATE_DIR": str(folder)},
    )
    assert "`chown` the folder named" in cure_of_failed_start(running)
    assert f"mkdir {folder}/queues: permission denied" in running.log_file.read_text()


@pytest.mark.parametrize("content", [None, "", " \n"], ids=["missing", "empty", "blank"])
def test_file_of_a_token_that_is_not_there_is_named(tmp_path, content):
    secrets = make_secrets(tmp_path / "secrets")
    token = secrets / "poller-token"
    token.unlink() if content is None else token.write_text(content)
    running = collector(tmp_path, SECURITY, settings={"OTELCOL_SECRETS_DIR": str(secrets)})
    assert cure_of_failed_start(running) == "put it there"
    assert str(token) in running.log_file.read_text()
