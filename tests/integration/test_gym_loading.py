"""How the emitter gets into stock Gym's process, what switches it on there, and where its spans go."""

import json
import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from socket import create_server
from uuid import uuid4

import pytest

from sandgauge_schemas import names
from support.build_cache import REPOSITORY
from support.grpc_exporter import grpc_exporter
from support.otlp_sink import OtlpSink
from support.plain_provider import ON
from support.real_collector import collector
from support.real_parts import require
from support.scenario_run import GROUPS_ENABLED, LENS_ABSENT, TelemetrySetup, run_scenarios
from support.stock_gym import stock_gym
from support.waiting import wait_until

pytestmark = pytest.mark.integration

REQUEST, START = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START
NO_HOST = TelemetrySetup(lens=False, host=False)
SCENARIO = ("-m", "support.gym_scenarios", "run", "fake_ok")
EXPLICIT = "from sandgauge_emitter.gym import GymSandboxInstrumentor as G; G().instrument()"
# As a parent process sets it after this one's interpreter has started: the line of `sandgauge.pth` is asleep.
LATE_ON = f"import os; os.environ.update({ON!r})"
WRAPPED = (
    "import importlib, nemo_gym.sandbox.api as api; "
    "start = vars(api.AsyncSandbox)['start']; print(type(start).__name__, start.__module__)"
)


def recorded(run):
    return sorted(span.name for span in run.outcomes["fake_ok"].spans() if span.scope == "sandgauge_emitter")


@pytest.mark.parametrize(
    ("environment", "first", "auto_instrumented", "emitted"),
    [
        (ON, "", False, True),
        ({}, LATE_ON, True, True),
        ({}, f"{LATE_ON}; {EXPLICIT}", False, True),
        ({}, f"{LATE_ON}; import nemo_gym.sandbox; {EXPLICIT}", False, True),
        (ON, EXPLICIT, True, True),
        ({}, LATE_ON, False, False),
        ({}, EXPLICIT, True, False),
    ],
    ids=["installed", "opentelemetry-instrument", "by-hand", "by-hand-after-gym", "all-at-once", "not-at-all", "off"],
)
def test_each_way_of_loading_is_enough_and_all_together_are_not_too_much(
    otlp_sink, environment, first, auto_instrumented, emitted
):
    run = run_scenarios(
        "fake_ok",
        setup=NO_HOST,
        sink=otlp_sink,
        environment=environment,
        first=first,
        auto_instrumented=auto_instrumented,
    )
    assert recorded(run) == ([REQUEST, START] if emitted else [])


@pytest.mark.parametrize(
    "environment",
    [
        {},
        ON | {"NEMO_GYM_OTEL_ENABLED": "0"},
        {"NEMO_GYM_OTEL_ENABLED": "1"},
        ON | {"NEMO_GYM_OTEL_SPAN_GROUPS": "agent"},
    ],
)
@pytest.mark.parametrize("auto_instrumented", [True, False])
def test_off_or_without_the_group_gyms_functions_are_its_very_own(environment, auto_instrumented):
    ended = stock_gym().run("-c", WRAPPED, environment=environment, auto_instrumented=auto_instrumented)
    assert ended.stdout.split() == ["function", "nemo_gym.sandbox.api"]


def test_enabled_without_the_group_nothing_is_emitted_and_one_line_says_why(otlp_sink):
    environment = {"NEMO_GYM_OTEL_ENABLED": "1"}
    run = run_scenarios("fake_ok", setup=LENS_ABSENT, sink=otlp_sink, environment=environment)
    assert recorded(run) == []
    (line,) = [line for line in run.stderr.splitlines() if "sandgauge" in line]
    assert "span group sandbox" in line
    assert "default,sandbox" in line


def in_yaml(**telemetry):
    """The variable that Gym's servers inherit."""
    return {"NEMO_GYM_CONFIG_DICT": json.dumps({"policy_model": {"port": 1}, "telemetry": telemetry})}


@pytest.mark.parametrize("setup", [NO_HOST, GROUPS_ENABLED], ids=["own-start", "gyms-start"])
def test_the_interval_of_gyms_own_configuration_travels_on_the_start(otlp_sink, setup):
    block = {"enabled": True, "span_groups": "default,sandbox", "sandbox_resource_sample_interval_seconds": 10}
    run = run_scenarios("fake_ok", setup=setup, sink=otlp_sink, environment=in_yaml(**block))
    (start,) = [span for span in run.outcomes["fake_ok"].spans() if span.name == START]
    assert start.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_INTERVAL_S] == 10.0


def test_gyms_configuration_alone_names_collector_service_and_run(otlp_sink):
    block = {
        "enabled": True,
        "span_groups": "all",
        "otlp_endpoint": otlp_sink.endpoint,
        "otlp_protocol": "http/protobuf",
        "otlp_headers": "authorization=Basic dXNlcjpwYXNz==",
        "service_name": "nemo-gym/swe_agent",
        "run_id": "run-7",
    }
    stock_gym(lens=False).run(*SCENARIO, environment=in_yaml(**block))
    spans = otlp_sink.spans()
    assert sorted(span.name for span in spans) == [REQUEST, START]
    assert {span.resource[names.SERVICE_NAME] for span in spans} == {"nemo-gym/swe_agent"}
    assert {span.attributes[names.NEMO_RUN_ID] for span in spans} == {"run-7"}
    assert otlp_sink.requests()[0].headers["Authorization"] == "Basic dXNlcjpwYXNz=="


def test_the_console_prints_each_span_as_a_line():
    ended = stock_gym(lens=False).run(*SCENARIO, environment=ON | {"NEMO_GYM_OTEL_EXPORTER": "console"})
    spans = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"name"')]
    assert sorted(span["name"] for span in spans) == [REQUEST, START]
    assert ended.stderr == ""


def is_free(port):
    with suppress(OSError), create_server(("127.0.0.1", port)):
        return True
    return False


@pytest.fixture
def usual_ports():
    """The ports that the document's own command line means; another run of the tests has them for a few seconds."""
    try:
        wait_until(lambda: is_free(4317) and is_free(4318), timeout_s=120, what="free ports", interval_s=1)
    except TimeoutError:
        require("ports 4317 and 4318", None, "something else on this machine listens there")


COMMAND_LINE = {"NEMO_GYM_OTEL_ENABLED": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317"}
GROUPS = {
    "environment": {"NEMO_GYM_OTEL_SPAN_GROUPS": "default,sandbox"},
    "yaml": in_yaml(enabled=True, span_groups="default,sandbox", sandbox_resource_sample_interval_seconds=10),
}


def spans_of(backend, service):
    """Return the names of a service's spans, one that was sent again once; other tests send to the usual port too."""
    found = [span for span in backend.spans() if span.resource.get(names.SERVICE_NAME) == service]
    return [span.name for span in {span.span_id: span for span in found}.values()]


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("grpc", [False, True], ids=["http", "grpc"])
def test_the_documented_command_line_reaches_a_real_collector(tmp_path, usual_ports, groups, grpc):
    gym = stock_gym(lens=False)
    service = f"gym-{uuid4()}"
    environment = COMMAND_LINE | GROUPS[groups] | {"OTEL_SERVICE_NAME": service}
    if grpc:
        environment["PYTHONPATH"] = os.pathsep.join([gym.path(), str(grpc_exporter(gym))])
    ports = {"OTLP_GRPC_PORT": "4317", "OTLP_HTTP_PORT": "4318"}
    with OtlpSink() as backend, collector(tmp_path, traces=backend.endpoint, settings=ports):
        ended = gym.run(*SCENARIO, environment=environment)
        backend.wait_for(lambda seen: len(spans_of(seen, service)) >= 2)
        assert sorted(spans_of(backend, service)) == [REQUEST, START]
        assert not backend.violations
    warnings = [line for line in ended.stderr.splitlines() if "sandgauge" in line]
    assert len(warnings) == (0 if grpc else 1)
    assert all("4318" in line for line in warnings)


def test_what_is_built_carries_the_line_that_every_interpreter_runs(tmp_path):
    build = f"from hatchling.build import build_wheel; print(build_wheel({str(tmp_path)!r}))"
    done = subprocess.run((sys.executable, "-c", build), cwd=REPOSITORY, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.strip()) as wheel:
        assert wheel.read("sandgauge.pth") == (REPOSITORY / "emitter" / "sandgauge.pth").read_bytes()
        assert "sandgauge_autoload.py" in wheel.namelist()
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert [line for line in required if "extra ==" not in line] == ["Requires-Dist: opentelemetry-api>=1.30"]
