"""What the doctor says of this machine: the state folder, ports, open files; and of scopes."""

import errno
import os
import resource
import socket
import sqlite3
from contextlib import closing

import pytest

from sandgauge_poller.config import Config, Deployment
from sandgauge_poller.doctor import listeners, open_files, scopes, state_folder
from sandgauge_poller.doctor.running_poller import RunningPoller
from sandgauge_poller.ingest.events import StartEvent
from sandgauge_poller.tracking.active_set import SandboxKey
from sandgauge_poller.tracking.database import STORE_FILE
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_poller.tracking.store import EventRow, insert_events
from sandgauge_schemas.records import JoinKeys, StartRecord

RUNNING = RunningPoller("http://127.0.0.1:1", ())


def lines(findings):
    return [str(finding) for finding in findings]


def start(number):
    record = StartRecord(keys=JoinKeys(sandbox_id=f"sandbox-{number}"))
    event = StartEvent(trace_id=bytes([number]) * 16, span_id=bytes([number]) * 8, received_ns=1, record=record)
    return EventRow(event, SandboxKey("training", f"sandbox-{number}"))


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path):
    folder = tmp_path / "deep" / "state"
    assert lines(state_folder.examine(folder)) == [f"pass  state folder: {folder} will be made"]
    assert not folder.parent.exists()


def test_a_folder_on_the_way_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    (line,) = lines(state_folder.examine(tmp_path / "file" / "state"))
    assert line.startswith(f"fail  state folder: {tmp_path / 'file'} cannot be written")
    assert "state.directory" in line


def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch):
    # Root may write everywhere, so the system's word is put in its place.
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    (line,) = lines(state_folder.examine(tmp_path))
    assert line.startswith(f"fail  state folder: {tmp_path} cannot be written; let user id {os.geteuid()} write there")


def test_an_empty_folder_and_one_that_was_used(tmp_path, database):
    assert database.close(60)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert lines(state_folder.examine(empty)) == [
        f"pass  state folder: {empty} can be written, is empty, and nobody uses it"
    ]
    (line,) = lines(state_folder.examine(database.path.parent))
    assert line.endswith(f"is of version {len(MIGRATIONS)}, and nobody uses it")


def test_who_uses_it_is_named_and_not_disturbed(database):
    (line,) = lines(state_folder.examine(database.path.parent))
    assert line.endswith(f"is used by the poller with process id {os.getpid()}")
    database.submit(lambda connection: insert_events(connection, [start(1)])).result(60)


def test_a_newer_store_is_refused(database):
    assert database.close(60)
    with closing(sqlite3.connect(database.path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    (line,) = lines(state_folder.examine(database.path.parent))
    assert line.startswith("fail  state folder: ")
    assert "is of a newer Sandgauge" in line


def test_a_damaged_store_is_said(tmp_path):
    (tmp_path / STORE_FILE).write_text("this is no database" * 100)
    (line,) = lines(state_folder.examine(tmp_path))
    assert line.startswith("fail  state folder: ")
    assert "not a database" in line


@pytest.mark.parametrize(
    ("hard", "changes", "verdict"),
    [
        (1024, {}, "warn"),
        (1_048_576, {}, "pass"),
        (resource.RLIM_INFINITY, {}, "pass"),
        (1024, {"tracking": {"max_sandboxes": 500}}, "pass"),
        (1024, {"deployments": []}, "pass"),
        (1024, {"deployments": [{"name": "a", "endpoint": "http://a", "use_server_proxy": "true"}]}, "pass"),
    ],
)
def test_open_files(monkeypatch, hard, changes, verdict):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    config = Config(**{"deployments": [{"name": "a", "endpoint": "http://a"}], **changes})
    assert str(open_files.examine(config)).startswith(f"{verdict}  open files: ")


def listening(ingest, status="127.0.0.1:0", running=None):
    config = Config(ingest={"endpoint": ingest, "insecure_listen": True}, status={"endpoint": status})
    return lines(listeners.examine(config, running))


def test_a_free_port_is_free_and_any_port_too():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert listening(f"127.0.0.1:{port}") == [
        f"pass  ingest.endpoint: 127.0.0.1:{port} is free",
        "pass  status.endpoint: 127.0.0.1:0 takes any free port",
    ]


def test_a_taken_port_is_the_pollers_or_anothers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert listening(address)[0].startswith(f"fail  ingest.endpoint: {address} is taken by another program; stop")
        assert (
            listening(address, running=RUNNING)[0] == f"pass  ingest.endpoint: {address} is served by a running poller"
        )


def test_an_address_of_another_machine():
    reason = os.strerror(errno.EADDRNOTAVAIL)
    assert listening("192.0.2.1:4319")[0].startswith(
        f"fail  ingest.endpoint: 192.0.2.1:4319 cannot be listened on: {reason}"
    )


def test_a_poller_that_is_not_ready_is_said():
    said = listening("127.0.0.1:0", running=RunningPoller("http://127.0.0.1:1", ("ingest",)))
    assert said[-1].startswith("warn  running poller: not ready: ingest")


def deployment(name, endpoint, *scope_urls):
    return Deployment(name=name, endpoint=endpoint, scopes=scope_urls)


def test_scopes_of_none_one_and_several():
    assert lines(scopes.examine([]))[0].startswith("warn  scopes: no deployment is configured")
    one = deployment("a", "http://a.invalid")
    assert lines(scopes.examine([one])) == [
        "pass  scopes: a is the only deployment, so it takes every span of its provider"
    ]
    several = [one, deployment("b", "http://b.invalid/v1", "http://other.invalid:80")]
    (line,) = lines(scopes.examine(several))
    assert line.startswith("pass  scopes: a span must name its control plane: ")
    assert line.endswith(": a (http://a.invalid), b (http://b.invalid, http://other.invalid)")


def test_the_only_deployment_of_a_provider_takes_its_spans():
    machine = Deployment(name="m", provider="docker", endpoint="unix:///no/docker.sock")
    assert lines(scopes.examine([deployment("a", "http://a.invalid"), machine])) == [
        "pass  scopes: a takes every span of provider opensandbox, as its only deployment",
        "pass  scopes: m takes every span of provider docker, as its only deployment",
    ]


def test_two_paths_of_one_socket_are_noticed(tmp_path):
    (tmp_path / "run").symlink_to(tmp_path)
    same = [
        Deployment(name=name, provider="docker", endpoint=f"unix://{path}/docker.sock")
        for name, path in (("a", tmp_path), ("b", tmp_path / "run"))
    ]
    assert "a and b seem to be one control plane" in lines(scopes.examine(same))[1]


def test_two_names_of_one_control_plane_are_noticed():
    same = [deployment("a", "http://127.0.0.1:8080"), deployment("b", "http://localhost:8080")]
    assert lines(scopes.examine(same))[1].startswith("warn  scopes: a and b seem to be one control plane; keep one")
    apart = [deployment("a", "http://127.0.0.1:8080"), deployment("b", "http://localhost:8081")]
    assert len(lines(scopes.examine(apart))) == 1


def test_an_address_for_all_interfaces_can_be_listened_on():
    assert listening("0.0.0.0:0")[0] == "pass  ingest.endpoint: 0.0.0.0:0 takes any free port"
