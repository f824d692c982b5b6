"""`sandgauge read`: one reading of a sandbox, wherever it is, and what its exit code says."""

import json
import sqlite3

import pytest
import yaml
from click.testing import CliRunner

from sandgauge_demo.deployment import DeploymentSettings, ExecdKind, Route
from sandgauge_poller.cli import cli
from sandgauge_poller.doctor.cures import CURES
from sandgauge_poller.tracking.database import Database
from sandgauge_schemas.names import ErrorType
from support.simulated_osb import osb_in_thread
from support.stub_engine import StubContainer, StubEngine, served_in_thread

KEY = "c4nary-of-the-control-plane"
LIMITS = {"cpu": "500m", "memory": "512Mi"}
AWAY = {"name": "away", "endpoint": "http://127.0.0.1:9"}


@pytest.fixture
def osb():
    with osb_in_thread(DeploymentSettings(api_key=KEY, proxy_needs_key=True, metrics_delay_s=0.0)) as deployment:
        yield deployment


@pytest.fixture
def read(tmp_path, osb):
    def invoke(sandbox_id, *arguments, **changes):
        configuration = {
            "deployments": [{"name": "training", "endpoint": osb.url, "api_key": KEY}],
            "sampling": {"timeout": "10s"},
            "allocation": {"timeout": "10s"},
            "state": {"directory": str(tmp_path / "state")},
            **changes,
        }
        path = tmp_path / "sandgauge.yaml"
        path.write_text(yaml.safe_dump(configuration))
        answer = CliRunner().invoke(cli, ["read", "--config", str(path), sandbox_id, *arguments])
        assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
        assert "c4nary" not in answer.output
        return answer

    return invoke


def only(answer):
    (found,) = json.loads(answer.stdout)["deployments"]
    return found


def lines(answer):
    return [" ".join(line.split()) for line in answer.stdout.splitlines()]


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        (ExecdKind.RUNC, "node (total_exceeds_limit)"),
        (ExecdKind.GUEST, "sandbox (total_matches_limit)"),
    ],
)
def test_a_table_tells_what_is_in_force_what_is_used_and_whose_machine_that_is(read, osb, tmp_path, kind, of):
    sandbox_id = osb.create(limits=LIMITS, execd_kind=kind, timeout_s=3600)
    answer = read(sandbox_id)
    first, titles, limits, *rest = lines(answer)
    assert answer.exit_code == 0
    assert first.startswith(f"{sandbox_id} at training: running, expires in ")
    assert titles == "VALUE OF SOURCE"
    assert limits == "limits 0.5 CPU, 512 MiB sandbox opensandbox.inspect/docker"
    (memory,) = [line for line in rest if line.startswith("memory used")]
    assert memory.endswith(f"{of} opensandbox.execd")
    assert not (tmp_path / "state").exists()


def test_json_has_the_keys_of_the_status_api(read, osb):
    found = only(read(osb.create(limits=LIMITS, execd_kind=ExecdKind.GUEST), "--json"))
    assert (found["deployment"], found["provider"], found["state"]) == ("training", "opensandbox", "running")
    assert found["allocation"]["components"] == [
        {"name": "sandbox", "requests": {}, "limits": {"cpu": 0.5, "memory_mib": 512.0}}
    ]
    assert found["reading"]["memory_total_mib"] == 512.0
    assert found["reading"]["memory_scope"] == "sandbox"
    assert found["reading"]["cpu_scope"] == "unknown"  # of which one reading by itself proves nothing
    assert {"at", "took_s", "cpu_used_percentage", "memory_used_mib"} <= found["reading"].keys()


def test_what_cannot_be_read_is_said_with_its_cure_and_makes_the_exit_code(read, osb):
    sandbox_id = osb.create(limits=LIMITS)
    osb.kill_execd(sandbox_id)
    answer = read(sandbox_id)
    assert answer.exit_code == 1
    assert "reading unavailable opensandbox.execd" in lines(answer)
    assert f"! reading: connection; {CURES[ErrorType.CONNECTION]}" in lines(answer)
    reading = only(read(sandbox_id, "--json"))["reading"]
    assert (reading["error_type"], reading["cure"]) == ("connection", CURES[ErrorType.CONNECTION])
    assert "memory_used_mib" not in reading


def test_an_allocation_that_is_not_told_is_said_too(read, osb):
    sandbox_id = osb.create(limits=LIMITS)
    osb.fault(Route.INSPECT, status=500, body="c4nary")
    answer = read(sandbox_id)
    assert answer.exit_code == 1
    assert f"! allocation: http_error; {CURES[ErrorType.HTTP_ERROR]}" in lines(answer)


def test_nobody_knows_it(read):
    answer = read("nobody")
    assert answer.exit_code == 1
    assert lines(answer) == ["nobody at training: not found", f"! not_found; {CURES[ErrorType.NOT_FOUND]}"]


def test_it_is_looked_for_everywhere_and_one_that_does_not_answer_is_named(read, osb):
    sandbox_id = osb.create(limits=LIMITS)
    here = {"name": "training", "endpoint": osb.url, "api_key": KEY}
    answer = read(sandbox_id, deployments=[AWAY, here])
    assert answer.exit_code == 0
    assert lines(answer)[0] == f"{sandbox_id} at training: running"
    assert lines(answer)[-1] == f"! away: connection; {CURES[ErrorType.CONNECTION]}"


def test_inside_of_a_paused_sandbox_nothing_is_asked(read, osb):
    sandbox_id = osb.create(limits=LIMITS)
    osb.pause(sandbox_id)
    answer = read(sandbox_id)
    assert answer.exit_code == 0
    assert lines(answer)[0] == f"{sandbox_id} at training: paused"
    assert osb.count(Route.EXECD) == osb.count(Route.PROXY) == 0


def test_execd_is_left_alone_where_the_configuration_says_so(read, osb):
    sandbox_id = osb.create(limits=LIMITS)
    found = only(
        read(sandbox_id, "--json", deployments=[{"name": "a", "endpoint": osb.url, "api_key": KEY, "execd": False}])
    )
    assert "reading" not in found
    assert osb.count(Route.EXECD) == osb.count(Route.PROXY) == 0


def test_a_usage_source_is_asked_for_that_sandbox_alone(read, osb, tmp_path):
    sandbox_id = osb.create(limits=LIMITS)
    container = only(read(sandbox_id, "--json"))["allocation"]["designator"]["id"]
    engine = StubEngine(
        tmp_path / "docker.sock",
        containers=[StubContainer(container.ljust(64, "0"), sandbox_id), StubContainer("f" * 64, "another")],
    )
    sources = [{"kind": "docker", "endpoint": engine.endpoint}]
    with served_in_thread(engine):
        answer, found = read(sandbox_id, usage=sources), only(read(sandbox_id, "--json", usage=sources))
    assert any(line.endswith("working set sandbox docker.stats") for line in lines(answer)), answer.output
    assert [usage["source"] for usage in found["usage"]] == ["docker.stats"]
    assert found["usage"][0]["memory_working_set_mib"] > 0
    assert not any("f" * 64 in path for path in engine.asked)


def test_beside_a_poller_nothing_is_written(read, osb, tmp_path):
    database = Database(tmp_path / "state")
    try:
        before = sqlite3.connect(database.path)
        try:
            assert read(osb.create(limits=LIMITS)).exit_code == 0
            assert before.execute("SELECT count(*) FROM sandbox").fetchone() == (0,)
        finally:
            before.close()
    finally:
        assert database.close(60)


@pytest.mark.parametrize("sandbox_id", ["../sandboxes", "a b", "-", "a" * 129])
def test_what_is_no_sandbox_id_is_wrong_usage(read, sandbox_id):
    answer = read("--", sandbox_id) if sandbox_id.startswith("-") else read(sandbox_id)
    assert answer.exit_code == 2
    assert "it is no sandbox id" in answer.output


def test_without_a_deployment_there_is_nobody_to_ask(read):
    answer = read("s-1", deployments=[])
    assert answer.exit_code == 1
    assert "name a control plane under deployments" in answer.output


def test_every_error_type_has_a_cure():
    assert set(CURES) == set(ErrorType)
