"""`sandgauge doctor` as a user runs it: one line each, its exit code, JSON, and no secret in either."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from sandgauge_demo.deployment import DeploymentSettings, ExecdKind
from sandgauge_schemas import names
from support.feed import feed, start_span
from support.running_poller import RunningPoller
from support.simulated_osb import osb_in_thread
from support.waiting import wait_until

KEY = "c4nary-of-the-control-plane"
TOKEN = "c4nary-of-the-page"
HEADER = "c4nary-of-the-collector"
PROXIES = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"), "http://127.0.0.1:9"),
    "NO_PROXY": "10.0.0.0/8,::1/128",
}


@pytest.fixture
def osb():
    with osb_in_thread(DeploymentSettings(api_key=KEY, proxy_needs_key=True, metrics_delay_s=0.1)) as deployment:
        yield deployment


@pytest.fixture
def configuration(osb, otlp_sink):
    return {
        "deployments": [{"name": "training", "endpoint": osb.url, "api_key": KEY}],
        "export": {"endpoint": otlp_sink.endpoint, "headers": {"authorization": HEADER}},
        "tracking": {"max_sandboxes": 100},
    }


def doctor(directory, *arguments, **environment):
    answer = subprocess.run(
        [sys.executable, "-m", "sandgauge_poller", "doctor", *arguments],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in answer.stderr
    assert "c4nary" not in answer.stdout + answer.stderr
    return answer


def write(directory, configuration):
    free = {"ingest": {"endpoint": "127.0.0.1:0"}, "status": {"endpoint": "127.0.0.1:0"}}
    (directory / "sandgauge.yaml").write_text(yaml.safe_dump({**free, **configuration}))


@pytest.mark.parametrize("environment", [{}, PROXIES], ids=["plain", "proxies in the environment"])
def test_all_is_well(tmp_path, osb, configuration, environment):
    osb.create(limits={"cpu": "1", "memory": "512Mi"}, execd_kind=ExecdKind.GUEST)
    write(tmp_path, {**configuration, "sampling": {"timeout": "10s"}, "allocation": {"timeout": "10s"}})
    answer = doctor(tmp_path, **environment)
    said = answer.stdout.splitlines()
    assert answer.returncode == 0, answer.stdout
    assert all(line.startswith("pass  ") for line in said), answer.stdout
    assert answer.stderr == ""
    whats = [line.split(": ")[0].removeprefix("pass  ") for line in said]
    assert whats == [
        "configuration",
        "state folder",
        "open files",
        "ingest.endpoint",
        "status.endpoint",
        "scopes",
        *["deployment training"] * 5,
        "Collector (traces)",
        "Collector (metrics)",
    ]
    assert not (tmp_path / "sandgauge-state").exists()


def test_anything_that_fails_makes_the_exit_code(tmp_path, configuration):
    configuration["deployments"][0]["api_key"] = "c4nary-but-wrong"
    write(tmp_path, configuration)
    answer = doctor(tmp_path)
    assert answer.returncode == 1
    assert "fail  deployment training: unauthorized" in answer.stdout
    assert "pass  Collector (metrics)" in answer.stdout


def test_json_holds_the_same(tmp_path, osb, configuration):
    write(tmp_path, configuration)
    lines = doctor(tmp_path).stdout.splitlines()
    findings = json.loads(doctor(tmp_path, "--json").stdout)["findings"]
    assert len(findings) == len(lines)
    for line, finding in zip(lines, findings, strict=True):
        assert finding.keys() == {"verdict", "what", "detail", "cure"}
        assert line.startswith(f"{finding['verdict']}  {finding['what']}: {finding['detail']}")


def test_a_configuration_that_does_not_load_is_all_that_is_said(tmp_path):
    (tmp_path / "sandgauge.yaml").write_text("ingest: {endpoint: c4nary}\nlogs: {level: c4nary}\n")
    answer = doctor(tmp_path)
    assert answer.returncode == 1
    assert [line[: len("fail  configuration: ")] for line in answer.stdout.splitlines()] == [
        "fail  configuration: "
    ] * 2
    assert "sandgauge.yaml:1: ingest.endpoint: is not host:port" in answer.stdout


def test_no_configuration(tmp_path):
    answer = doctor(tmp_path)
    assert answer.returncode == 1
    assert answer.stdout.startswith("fail  configuration: ")


def test_an_oddity_of_the_configuration_is_a_warning(tmp_path, configuration):
    write(tmp_path, {**configuration, "sampling": {"timeout": "1s"}})
    answer = doctor(tmp_path)
    assert answer.returncode == 0
    (line,) = [line for line in answer.stdout.splitlines() if line.startswith("warn")]
    assert line.startswith("warn  configuration: ")
    assert "sampling.timeout: is no longer than a reading takes" in line


def test_beside_a_running_poller(tmp_path, osb, configuration):
    second = {"name": "other", "endpoint": "http://127.0.0.1:9"}
    configuration["deployments"].append(second)
    poller = RunningPoller(tmp_path, configuration)
    poller.configure({**configuration, "status": {"endpoint": poller.status_url[7:], "auth": {"bearer_token": TOKEN}}})
    with poller:
        feed(
            poller.endpoint,
            start_span(osb.create(), attributes={names.NEMO_GYM_SANDBOX_SCOPE: "http://nowhere.invalid"}),
        )
        wait_until(
            lambda: "1 sandbox of the running poller matches no deployment" in doctor(tmp_path).stdout,
            timeout_s=60,
            what="the unmatched sandbox to be said",
        )
        said = doctor(tmp_path).stdout
        assert f"is used by the poller with process id {poller.pid}" in said
        assert said.count("is served by a running poller") == 2
        assert "fail  deployment other: unreachable: Connection refused" in said
    assert poller.complaints() == []
