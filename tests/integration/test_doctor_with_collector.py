"""The doctor before a real Collector: at its port for OTLP over HTTP, at that for gRPC, at a wrong path."""

import time

import pytest

from sandgauge_demo.loopback import free_ports
from sandgauge_poller.config import Export
from sandgauge_poller.doctor.collector import examine
from support.real_collector import collector, complaints

pytestmark = pytest.mark.integration


def lines(endpoint):
    return [str(finding) for finding in examine(Export(endpoint=endpoint), time.time)]


def test_a_real_collector_is_judged_right(tmp_path):
    (grpc_port,) = free_ports(1)
    with collector(tmp_path, settings={"OTLP_GRPC_PORT": str(grpc_port)}) as running:
        well, wrong_path = lines(running.endpoint), lines(f"{running.endpoint}/otlp")
        wrong_port = lines(f"http://127.0.0.1:{grpc_port}")
        assert complaints(running) == []
    assert well == [f"pass  Collector ({signal}): takes an empty request" for signal in ("traces", "metrics")]
    assert all("HTTP 404; leave the path off export.endpoint" in line for line in wrong_path)
    assert all(line.startswith("fail") and line.endswith("most often 4318") for line in wrong_port)
