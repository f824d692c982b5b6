"""A state folder on a disk that is full: spans are put off, the poller lives on, and goes on once there is room."""

import os
import subprocess
from contextlib import contextmanager

import pytest
import requests

from sandgauge_schemas import names
from support.delivered import ids_in
from support.feed import GYM, feed, start_span
from support.otlp_json import from_resource, traces
from support.real_parts import require
from support.running_poller import RunningPoller
from support.waiting import wait_until

SAMPLE = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE


@contextmanager
def mounted(folder, *options):
    """Mount a small file system in memory, which only root may."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", ",".join(("size=4m", *options)), "tmpfs", str(folder)]
    done = None
    if os.geteuid() == 0:
        done = subprocess.run(command, capture_output=True, check=False).returncode == 0 or None
    require("a file system in memory", done, "run as root, where mounting is allowed")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk") as folder:
        yield folder


def fill(folder):
    """Take all room there is and return the file that has it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (64 * 1024, 1024, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def send(endpoint, *spans):
    request = traces(from_resource(GYM, *spans))
    with requests.Session() as session:
        session.trust_env = False
        return session.post(f"{endpoint}/v1/traces", json=request, timeout=10)


def test_spans_wait_until_there_is_room(osb, make_poller, otlp_sink, small_disk):
    early, late = osb.create(), osb.create()
    poller = make_poller(state={"directory": str(small_disk / "state")})
    poller.start()
    feed(poller.endpoint, start_span(early))
    otlp_sink.wait_for(lambda sink: early in ids_in(sink, SAMPLE))
    ballast = fill(small_disk)
    # What there is room for in pages already taken is still stored.
    answers = []

    def is_refused():
        answers.append(send(poller.endpoint, start_span(late, attributes={"padding": "x" * 100_000})))
        return answers[-1].status_code != 200

    wait_until(is_refused, timeout_s=30, what="a span that is not stored")
    answers += [send(poller.endpoint, start_span(late, attributes={"padding": "x" * 100_000})) for _ in range(5)]
    refused = [answer for answer in answers if answer.status_code != 200]
    assert {(answer.status_code, answer.headers["Retry-After"]) for answer in refused} == {(503, "1")}
    assert get(poller, "/healthz").status_code == 200
    before = len(otlp_sink.spans(SAMPLE))
    ballast.unlink()
    wait_until(lambda: send(poller.endpoint, start_span(late)).status_code == 200, timeout_s=30, what="room again")
    otlp_sink.wait_for(
        lambda sink: (
            {early, late} <= {span.attributes[names.NEMO_GYM_SANDBOX_ID] for span in sink.spans(SAMPLE)[before:]}
        ),
        30,
    )
    assert poller.stop() == 0
    (line,) = poller.complaints()
    assert f"{small_disk / 'state' / 'sandgauge.db'}: cannot be written" in line
    assert "make room" in line
    poller.log_file.write_text("")


def get(poller, path):
    with requests.Session() as session:
        session.trust_env = False
        return session.get(f"{poller.status_url}{path}", timeout=10)


def start_in_vain(poller):
    """Start a poller that refuses to, with exit code 1, and return what it printed."""
    with pytest.raises(RuntimeError, match="the poller ended with 1"):
        poller.start()
    printed = poller.log_file.read_text()
    poller.log_file.write_text("")
    assert "ready" not in printed
    assert "spans on" not in printed
    return printed


def test_a_disk_that_may_only_be_read_is_refused_before_any_span(make_poller, tmp_path):
    with mounted(tmp_path / "disk", "ro") as folder:
        printed = start_in_vain(make_poller(state={"directory": str(folder)}))
    assert f"{folder}: cannot be written (Read-only file system); {folder} belongs to user id 0; " in printed
    assert f"let user id {os.geteuid()} write there, or name another folder as state.directory" in printed


def test_a_full_disk_is_refused_before_any_span(make_poller, small_disk):
    fill(small_disk)
    printed = start_in_vain(make_poller(state={"directory": str(small_disk / "state")}))
    assert "cannot be written" in printed
    assert "make room" in printed


def test_a_second_poller_is_refused_and_the_first_lives_on(osb, make_poller, otlp_sink, tmp_path):
    sandbox_id = osb.create()
    first = make_poller()
    first.start()
    second = RunningPoller(tmp_path / "second", {"state": {"directory": str(tmp_path / "state")}})
    printed = start_in_vain(second)
    assert f"the poller with process id {first.pid} is using this folder" in printed
    feed(first.endpoint, start_span(sandbox_id))
    otlp_sink.wait_for(lambda sink: sandbox_id in ids_in(sink, SAMPLE))
