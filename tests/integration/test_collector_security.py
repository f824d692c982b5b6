"""The security overlay in a real Collector: TLS and a token on every hop, each with the wrong ones too."""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
import requests

from sandgauge_demo.loopback import free_ports
from sandgauge_schemas.names import (
    METRIC_GYM_SANDBOX_CPU_COUNT,
    SPAN_GYM_SANDBOX_START,
)
from support.certificate import make_certificate, server_context
from support.collector_secrets import TOKENS, make_secrets
from support.direct_session import direct_session
from support.grpc_exporter import grpc_exporter
from support.otlp_json import from_resource, gauge, metrics, point, span, traces
from support.otlp_sink import OtlpSink
from support.real_collector import SECURITY, collector
from support.running_poller import RunningPoller
from support.stock_gym import stock_gym
from support.waiting import wait_until

pytestmark = pytest.mark.integration

START = traces(from_resource({}, span(SPAN_GYM_SANDBOX_START)))
READING = metrics({}, gauge(METRIC_GYM_SANDBOX_CPU_COUNT, point(1.0, {}), unit="{cpu}"))
GOOD = {"Authorization": "Bearer token-of-gym"}
WRONG = [{}, {"Authorization": "Bearer token-of-nobody"}, {"Authorization": "Basic token-of-gym"}]
WRONG += [
    {"Authorization": "Bearer token-for-poller"},
    {"Authorization": "Bearer "},
    {"X-Authorization": "token-of-gym"},
]

SDK_EXPORTER = """
import sys
from importlib import import_module
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
exporter = import_module(f"opentelemetry.exporter.otlp.proto.{sys.argv[1]}.trace_exporter").OTLPSpanExporter
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter()))
provider.get_tracer("tests").start_span("gym.sandbox.start").end()
provider.shutdown()
"""


@pytest.fixture
def secrets(tmp_path):
    return make_secrets(tmp_path / "secrets")


@pytest.fixture
def sink(secrets):
    """Poller and both backends at once; the tokens of the requests tell the hops apart."""
    with OtlpSink(tls=tls(secrets)) as sink:
        yield sink


def tls(secrets):
    return server_context(secrets / "tls.crt", secrets / "tls.key")


def secured(directory, secrets, sink, *, poller=None, settings=None):
    """Return a Collector with the overlay that sends to the sink; `poller` is another address for the feed."""
    backend = sink.endpoint.removeprefix("https://")
    addresses = {"POLLER_ADDRESS": poller or backend, "TRACES_ADDRESS": backend, "METRICS_ADDRESS": backend}
    return collector(
        directory / "otelcol",
        SECURITY,
        settings={"OTELCOL_SECRETS_DIR": str(secrets), **addresses, **(settings or {})},
    )


def secure_endpoint(running):
    return running.endpoint.replace("http://", "https://")


def post(running, authority, request, headers=GOOD):
    signal = "traces" if "resourceSpans" in request else "metrics"
    url = f"{secure_endpoint(running)}/v1/{signal}"
    with direct_session() as session:
        return session.post(url, json=request, headers=headers, verify=str(authority), timeout=60).status_code


def bearers(sink):
    """Return which tokens came on which way."""
    return {(one.path, one.headers.get("Authorization")) for one in sink.requests()}


def test_only_who_shows_a_good_token_gets_in_and_each_hop_has_its_own(tmp_path, secrets, sink):
    with secured(tmp_path, secrets, sink) as running:
        assert [post(running, secrets / "ca.crt", START, headers) for headers in WRONG] == [401] * len(WRONG)
        assert sink.requests() == []
        assert post(running, secrets / "ca.crt", START) == 200
        assert post(running, secrets / "ca.crt", READING, {"Authorization": "Bearer token-of-poller"}) == 200
        sink.wait_for(lambda sink: len(sink.requests()) == 3)
    assert bearers(sink) == {
        ("/v1/traces", "Bearer token-for-poller"),
        ("/v1/traces", "Bearer token-for-traces"),
        ("/v1/metrics", "Bearer token-for-metrics"),
    }
    log = running.log_file.read_text()
    assert not [token for content in TOKENS.values() for token in content.split() if token in log]


def test_who_speaks_plainly_or_does_not_trust_the_certificate_gets_nowhere(tmp_path, secrets, sink):
    with secured(tmp_path, secrets, sink) as running:
        address = urlsplit(running.endpoint)
        with socket.create_connection((address.hostname, address.port), 10) as plain:
            plain.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token-of-gym\r\n\r\n")
            assert plain.recv(100).startswith(b"HTTP/1.0 400 ")
        with (
            socket.create_connection((address.hostname, address.port), 10) as untrusting,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            ssl.create_default_context().wrap_socket(untrusting, server_hostname="localhost")
        assert sink.requests() == []


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_exporters_of_gym_pass_with_the_documented_variables_and_not_with_a_wrong_token(
    tmp_path, secrets, sink, protocol
):
    (grpc_port,) = free_ports(1)
    with secured(tmp_path, secrets, sink, settings={"OTLP_GRPC_PORT": str(grpc_port)}) as running:
        endpoint = secure_endpoint(running) if protocol == "http" else f"https://127.0.0.1:{grpc_port}"
        for token in ("token-of-nobody", "token-of-gym"):
            assert sink.requests() == []
            run_exporter(
                protocol,
                {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
                    "OTEL_EXPORTER_OTLP_CERTIFICATE": str(secrets / "ca.crt"),
                    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{token}",
                },
            )
        sink.wait_for(lambda sink: len(sink.spans()) == 2)


def run_exporter(protocol, environment):
    """Send a start span by the SDK's exporter; the one for gRPC is where stock Gym is."""
    if protocol == "http":
        subprocess.run([sys.executable, "-c", SDK_EXPORTER, protocol], env=environment, check=True)
    else:
        gym = stock_gym(lens=False)
        path = os.pathsep.join([gym.path(), str(grpc_exporter(gym))])
        gym.run("-c", SDK_EXPORTER, protocol, environment={"PYTHONPATH": path, **environment})


def test_nothing_is_sent_to_whom_the_authority_does_not_know_and_the_feed_waits(tmp_path, secrets, sink):
    right = shutil.copy(secrets / "ca.crt", tmp_path)
    (tmp_path / "other").mkdir()
    shutil.copy(make_certificate(tmp_path / "other"), secrets / "ca.crt")
    with secured(tmp_path, secrets, sink) as running:
        assert post(running, right, START) == 200
        wait_until(
            lambda: "certificate signed by unknown authority" in running.log_file.read_text(),
            timeout_s=60,
            what="a certificate that is looked at",
        )
        assert sink.requests() == []
        running.stop()
        shutil.copy(right, secrets)
        running.start()
        sink.wait_for(lambda sink: ("/v1/traces", "Bearer token-for-poller") in bearers(sink))


def test_a_new_token_of_the_poller_takes_over_without_a_restart_and_loses_nothing(tmp_path, secrets, sink):
    """As docs/collector.md says: poller down, both files changed, poller up."""
    with OtlpSink() as down:
        pass
    with secured(tmp_path, secrets, sink, poller=f"127.0.0.1:{down.port}") as running:
        assert post(running, secrets / "ca.crt", START) == 200
        (secrets / "poller-token").write_text("a-newer-token\n")
        wait_until(lambda: "refresh token" in running.log_file.read_text(), timeout_s=60, what="a token read again")
        with OtlpSink(down.port, tls=tls(secrets)) as poller:
            poller.wait_for(lambda sink: sink.spans() != [])
            assert bearers(poller) == {("/v1/traces", "Bearer a-newer-token")}


@pytest.fixture
def pair(tmp_path, secrets, sink):
    """Return a running Collector, and a poller that is configured for tokens and not started yet."""
    poller = RunningPoller(tmp_path / "poller")
    address = poller.endpoint.removeprefix("http://")

    def with_tokens(*, ingest, export):
        files = {"cert_file": str(secrets / "tls.crt"), "key_file": str(secrets / "tls.key")}
        sections = {
            "ingest": {"endpoint": address, "auth": {"bearer_token": ingest}, "tls": files},
            "export": {
                "endpoint": secure_endpoint(running),
                "headers": {"Authorization": f"Bearer {export}"},
                "tls": {"ca_file": str(secrets / "ca.crt")},
            },
        }
        poller.configure(sections)
        return poller

    with secured(tmp_path, secrets, sink, poller=address) as running:
        yield running, with_tokens


def spans_seen(poller):
    page = requests.get(f"{poller.status_url}/metrics", timeout=60).text
    return {outcome: float(count) for outcome, count in re.findall(r'poller_spans_total{outcome="(\w+)".*} (.*)', page)}


def what_doctor_says_of_the_collector(poller):
    """Return its findings about an empty request of each signal, and all that it printed."""
    command = [sys.executable, "-m", "sandgauge_poller", "doctor", "--json", "--config", poller.config_file]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = {one["what"]: one for one in json.loads(said)["findings"]}
    return [found[f"Collector ({signal})"] for signal in ("traces", "metrics")], said


def test_a_poller_with_the_right_tokens_is_fed_and_heard(pair, secrets):
    running, with_tokens = pair
    poller = with_tokens(ingest="token-for-poller", export="token-of-poller")
    with poller:
        assert post(running, secrets / "ca.crt", START) == 200
        wait_until(lambda: sum(spans_seen(poller).values()) == 1, timeout_s=60, what="a span at the poller")
    findings, _ = what_doctor_says_of_the_collector(poller)
    assert [one["verdict"] for one in findings] == ["pass", "pass"]
    assert poller.complaints() == []


def test_a_poller_with_wrong_tokens_is_refused_on_both_ways_and_both_sides_say_so(pair, secrets):
    running, with_tokens = pair
    poller = with_tokens(ingest="token-of-nobody", export="token-of-nobody")
    with poller:
        assert post(running, secrets / "ca.crt", START) == 200
        wait_until(
            lambda: re.search("Dropping data.*401", running.log_file.read_text()), timeout_s=60, what="a refusal"
        )
        assert spans_seen(poller) == {}
    findings, said = what_doctor_says_of_the_collector(poller)
    assert [(one["verdict"], "401" in one["detail"]) for one in findings] == [("fail", True)] * 2
    assert "token-of-nobody" not in said + poller.log_file.read_text() + running.log_file.read_text()
