"""Gym's sandboxes in children of every kind, at the end of a process, and with a telemetry layer that fails."""

import json
import socket
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from sandgauge_demo.loopback import free_ports
from sandgauge_schemas import names
from support.otlp_sink import OtlpSink
from support.plain_provider import ON
from support.scenario_run import GROUPS_ENABLED, LENS_ABSENT
from support.simulated_osb import osb_in_thread
from support.stock_gym import stock_gym

pytestmark = pytest.mark.integration

REQUEST, START = names.SPAN_GYM_SANDBOX_REQUEST, names.SPAN_GYM_SANDBOX_START
CPU, REQUEST_ID = names.NEMO_GYM_SANDBOX_REQUESTED_CPU, names.NEMO_GYM_SANDBOX_REQUEST_ID
PROGRAM = ("-m", "support.gym_scenarios", "processes")
POOLED = [100, *range(6)]


SANDBOXES = {
    ("fork", "exit"): [1, 2, 3],
    ("fork", "kill"): [1, 2, 3],
    ("child_process",): [1, 2],
    ("pool", "fork"): POOLED,
    ("pool", "spawn"): POOLED,
    ("pool", "forkserver"): POOLED,
    ("multiprocessing_pool", "fork"): POOLED,
    ("multiprocessing_pool", "spawn"): POOLED,
}


# Python 3.12.0 and 3.12.1 start no thread at exit.
@pytest.mark.parametrize(
    ("python", "arguments"),
    [*(("3.13", one) for one in SANDBOXES), *(("3.12", one) for one in [("fork", "exit"), ("child_process",)])],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_every_process_sends_its_own_spans_once(otlp_sink, python, arguments):
    sandboxes = SANDBOXES[arguments]
    environment = ON | {"OTEL_EXPORTER_OTLP_ENDPOINT": otlp_sink.endpoint}
    stock_gym(python, lens=False).run(*PROGRAM, *arguments, environment=environment)
    requests = {span.attributes[REQUEST_ID]: span.attributes[CPU] for span in otlp_sink.spans(REQUEST)}
    assert Counter(requests.values()) == Counter(map(float, sandboxes))
    assert Counter(span.attributes[REQUEST_ID] for span in otlp_sink.spans(START)) == Counter(requests.keys())
    assert len(otlp_sink.spans()) == 2 * len(sandboxes)


@contextmanager
def closed_port():
    (port,) = free_ports(1)
    yield port


@contextmanager
def silent_collector():
    with socket.create_server(("127.0.0.1", 0), backlog=50) as collector:
        yield collector.getsockname()[1]


@pytest.mark.load  # for the clock that it looks at
@pytest.mark.parametrize("collector", [closed_port, silent_collector])
def test_a_process_ends_within_its_bound_though_the_collector_is_away(collector):
    with collector() as port:
        environment = ON | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
        done = stock_gym(lens=False).run(*PROGRAM, "start_one", "1", environment=environment)
        seconds = time.time() - float(done.stdout.splitlines()[-1])
    print(f"end of a Gym process with a Collector that is away: {seconds:.1f} s")
    assert seconds < 5


# Every path through the emitter once.
SCENARIOS = ("fake_ok", "fake_fail", "cancelled_create", "borrowed", "direct", "compose_failing", "opensandbox")


@pytest.mark.timeout(900)  # hundreds of runs, each of them short
@pytest.mark.parametrize("setup", [LENS_ABSENT, GROUPS_ENABLED], ids=["own-provider", "gyms-spans"])
def test_whatever_call_into_telemetry_or_the_network_fails_the_caller_sees_the_same(setup):
    """One failure at a time, at each of them; the own provider and the reading before deletion included."""
    with osb_in_thread() as osb, OtlpSink() as sink:
        environment = ON | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
            "OPEN_SANDBOX_DOMAIN": osb.url,
            "SANDGAUGE_POLLER_ENDPOINT": sink.endpoint,
        }
        if setup.groups:
            environment |= {"SCENARIO_HOST": "yes", "SCENARIO_SPAN_GROUPS": ",".join(setup.groups)}
        program = ("-m", "support.gym_scenarios", "faults", *SCENARIOS)
        done = stock_gym(lens=setup.lens).run(*program, environment=environment)
    counted, *different = map(json.loads, done.stdout.splitlines())
    print(f"calls into telemetry and the network: {counted['calls']}")
    assert counted["calls"] > 100
    assert different == []
    assert "sandgauge_emitter: Sandbox telemetry" in done.stderr
