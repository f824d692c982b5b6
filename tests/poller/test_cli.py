"""The command line as a user meets it: exit codes, and messages that say what to do."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from sandgauge_poller.cli import cli
from sandgauge_poller.tracking.database import Database

CONFIGS = Path(__file__).parents[1] / "fixtures" / "config"
BAD = sorted(CONFIGS.glob("bad_*.yaml"))
EXPECTED = json.loads((CONFIGS / "expected.json").read_text())
WITHOUT_AN_EXTRA = """
import sys
sys.modules["click"] = None
from sandgauge_poller.__main__ import main
main()
"""


def sandgauge(*arguments, cwd, **environment):
    return subprocess.run(
        [sys.executable, "-m", "sandgauge_poller", *arguments],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_there_are_at_least_ten_bad_configurations():
    assert len(BAD) >= 10


@pytest.mark.parametrize("path", BAD, ids=[path.stem for path in BAD])
def test_a_bad_configuration_ends_with_1_and_names_file_line_key_and_cure(path):
    answer = CliRunner().invoke(cli, ["check", "--config", str(path)])
    assert (answer.exit_code, answer.stdout) == (1, "")
    expected = EXPECTED[path.stem]
    key = f" {expected['key']}: " if expected["key"] else " "
    start = f"{path}:{expected['line']}:{key}"
    (line,) = [line for line in answer.stderr.splitlines() if line.startswith(start)]
    assert expected["reason"] in line
    assert expected["cure"] in line


def test_a_good_configuration_ends_with_0(tmp_path):
    (tmp_path / "sandgauge.yaml").write_text("deployments:\n  - {name: training, endpoint: http://127.0.0.1:8080}\n")
    answer = sandgauge("check", cwd=tmp_path)
    assert (answer.returncode, answer.stdout.strip()) == (0, "ok: 1 deployment")


def test_the_effective_configuration_is_printed_and_loads_again(tmp_path):
    text = "deployments:\n  - {name: training, endpoint: http://127.0.0.1:8080, api_key: hunter2hunter2}\n"
    (tmp_path / "sandgauge.yaml").write_text(text)
    first = sandgauge("check", "--print-config", cwd=tmp_path)
    assert first.returncode == 0
    assert "collection_interval: 10s" in first.stdout
    assert "hunter2" not in first.stdout + first.stderr
    (tmp_path / "printed.yaml").write_text(first.stdout)
    again = sandgauge("check", "--print-config", "--config", "printed.yaml", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, first.stdout)


@pytest.mark.parametrize("command", ["check", "run", "doctor"])
def test_no_configuration_prints_the_smallest_one(command, tmp_path):
    answer = sandgauge(command, cwd=tmp_path)
    assert answer.returncode == 1
    said = answer.stdout if command == "doctor" else answer.stderr
    assert "--config" in said
    assert "deployments:\n  - name:" in said


def test_wrong_usage_ends_with_2(tmp_path):
    assert sandgauge("runn", cwd=tmp_path).returncode == 2


def test_help_lists_the_commands(tmp_path):
    answer = sandgauge("--help", cwd=tmp_path)
    assert answer.returncode == 0
    assert all(command in answer.stdout for command in ("run", "check", "demo"))


def test_a_newer_store_is_said_in_one_line(tmp_path):
    (tmp_path / "state").mkdir()
    with closing(sqlite3.connect(tmp_path / "state" / "sandgauge.db")) as connection:
        connection.execute("PRAGMA user_version = 999")
    last = last_words(tmp_path, "state: {directory: state}\n")
    assert "sandgauge.db: written by a newer Sandgauge" in last
    assert "run that Sandgauge again" in last


def test_a_folder_in_use_is_said_in_one_line(tmp_path):
    database = Database(tmp_path / "state")
    last = last_words(tmp_path, "state: {directory: state}\n")
    assert database.close(60)
    assert f"process id {os.getpid()} is using this folder" in last
    assert "state.directory" in last


@pytest.mark.parametrize("key", ["ingest.endpoint", "status.endpoint"])
def test_a_taken_port_is_said_in_one_line_with_its_key_and_the_cure(tmp_path, key):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        addresses = {"ingest.endpoint": "127.0.0.1:0", "status.endpoint": "127.0.0.1:0"}
        addresses[key] = f"127.0.0.1:{taken.getsockname()[1]}"
        sections = [f"{name.partition('.')[0]}: {{endpoint: '{address}'}}" for name, address in addresses.items()]
        last = last_words(tmp_path, "\n".join(sections))
    assert last.startswith(f"Error: {key}: ")
    assert last.endswith("; stop what listens there, or name another address")


def last_words(directory, configuration):
    """Return the last line of a poller that cannot start."""
    (directory / "sandgauge.yaml").write_text(configuration)
    answer = sandgauge("run", cwd=directory)
    assert answer.returncode == 1
    assert "Traceback" not in answer.stderr
    return answer.stderr.splitlines()[-1]


def test_without_its_extra_it_says_what_to_install():
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_AN_EXTRA], capture_output=True, text=True, timeout=120, check=False
    )
    assert answer.returncode == 2
    assert (
        answer.stderr == "sandgauge: click is not installed; install the poller with: pip install 'sandgauge[poller]'\n"
    )


def test_health_is_1_and_a_reason_for_each_server_that_is_not_well(otlp_sink):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        silent = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    answer = CliRunner().invoke(cli, ["health", silent, otlp_sink.endpoint, "no-url"])
    assert answer.exit_code == 1
    refused, not_found, malformed = answer.stdout.splitlines()
    assert refused.startswith(f"{silent}: ")
    assert "refused" in refused
    assert not_found == f"{otlp_sink.endpoint}: it answers 404"
    assert malformed.startswith("no-url: ")


def test_a_shard_that_is_none_is_wrong_usage(tmp_path):
    answer = sandgauge("run", "--shard", "2", cwd=tmp_path)
    assert answer.returncode == 2
    assert "--shard" in answer.stderr
    assert "0/3" in answer.stderr


def test_an_empty_shard_is_wrong_usage_and_not_all_sandboxes(tmp_path):
    answer = sandgauge("run", "--shard", "", cwd=tmp_path)
    assert answer.returncode == 2
    assert "--shard" in answer.stderr
    assert "it is empty; write index/count, such as 0/3, or leave the option out" in " ".join(answer.stderr.split())


def test_a_shard_beside_kafka_is_wrong_usage(tmp_path):
    tmp_path.joinpath("sandgauge.yaml").write_text("ingest: {kafka: {brokers: ['127.0.0.1:9']}}\n")
    answer = CliRunner().invoke(cli, ["run", "--config", str(tmp_path / "sandgauge.yaml"), "--shard", "0/3"])
    assert answer.exit_code == 2
    assert "--shard" in answer.stderr
    assert "ingest.kafka.brokers" in answer.stderr
