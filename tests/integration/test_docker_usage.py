"""A Docker daemon as a usage source, beside execd: what sandboxes of a real opensandbox-server really used."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from sandgauge_schemas import names
from sandgauge_schemas.names import SampleScope, ScopeEvidence
from sandgauge_schemas.records import SampleRecord, SummaryRecord, UsageRecord
from support.cgroup_files import CgroupRecord
from support.feed import feed, start_span
from support.running_poller import RunningPoller
from support.waiting import wait_until

pytestmark = pytest.mark.integration

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
HELD = "i=0; x=0123456789abcdefghij; while [ $i -lt 22 ]; do x=$x$x; i=$((i+1)); done; while :; do :; done"
"""Holds 80 MiB, and whatever CPU time it gets."""

HOG = "x=0123456789abcdef; while :; do x=$x$x; done"
"""Takes memory until it is killed for it."""

SHAPES = {
    "held": ("600m", "512Mi", HELD),
    "child": ("500m", "64Mi", "sleep 600"),
    "whole": ("500m", "64Mi", f"until test -e /now; do sleep 0.1; done; {HOG}"),
    "throttled": ("200m", "64Mi", "while :; do :; done"),
}


@pytest.fixture
def sandboxes(opensandbox_server):
    """Ids of the sandboxes by what they are for."""

    def create(shape):
        cpu, memory, script = shape
        return opensandbox_server.create(cpu, memory, entrypoint=["sh", "-c", script])

    with ThreadPoolExecutor() as pool:
        ids = dict(zip(SHAPES, pool.map(create, SHAPES.values()), strict=True))
    yield ids
    for sandbox_id in ids.values():
        opensandbox_server.request("DELETE", f"/v1/sandboxes/{sandbox_id}")


@pytest.fixture
def config(opensandbox_server, otlp_sink):
    return {
        "deployments": [
            {
                "name": "training",
                "endpoint": opensandbox_server.endpoint,
                "api_key": opensandbox_server.api_key,
                "use_server_proxy": True,
            }
        ],
        "sampling": {"collection_interval": "5s"},
        "usage": [{"kind": "docker", "endpoint": opensandbox_server.daemon.host, "interval": "10s"}],
        "export": {"endpoint": otlp_sink.endpoint},
    }


def of(sink, sandbox_id, record, source):
    """Return the good readings of one source, oldest first."""
    spans = sorted(sink.spans(SAMPLE), key=lambda span: span.start_ns)
    found = [record.from_attributes(span.attributes) for span in spans]
    return [
        reading
        for reading in found
        if (reading.keys.sandbox_id, reading.status.source, reading.status.error_type) == (sandbox_id, source, None)
    ]


def usage_of(sink, sandbox_id):
    return of(sink, sandbox_id, UsageRecord, "docker.stats")


def windows_of(sink, sandbox_id):
    return [reading for reading in usage_of(sink, sandbox_id) if reading.cpu_used_cores is not None]


def test_what_sandboxes_used_as_the_kernel_counts_it(opensandbox_server, sandboxes, config, otlp_sink, tmp_path):
    server = opensandbox_server
    container = server.daemon.docker("inspect", "-f", "{{.Id}}", f"sandbox-{sandboxes['held']}")
    with ExitStack() as stack:
        beside = stack.enter_context(CgroupRecord(container))
        poller = stack.enter_context(RunningPoller(tmp_path, config))
        feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in sandboxes.values()))
        otlp_sink.wait_for(lambda seen: all(usage_of(seen, id_) for id_ in sandboxes.values()))
        server.daemon.docker("exec", f"sandbox-{sandboxes['child']}", "sh", "-c", f"({HOG}); true")
        server.inside(sandboxes["whole"], ": > /now")
        wait_until(lambda: not server.is_running(sandboxes["whole"]), timeout_s=60, what="a kill of the main process")
        otlp_sink.wait_for(
            lambda seen: (
                seen.spans(SUMMARY)
                and all(len(windows_of(seen, sandboxes[name])) >= 2 for name in ("held", "child", "throttled"))
            ),
            90,
        )
    assert poller.complaints() == []
    check_against_the_kernel(windows_of(otlp_sink, sandboxes["held"]), beside)
    check_kills(otlp_sink, sandboxes)
    check_throttling(usage_of(otlp_sink, sandboxes["throttled"]), windows_of(otlp_sink, sandboxes["throttled"]))
    check_execd_beside(otlp_sink, sandboxes["held"])


def check_against_the_kernel(windows, beside):
    doubts = []
    for window in windows:
        end_ns = window.timestamp_ms * 10**6
        least, most = beside.cores(end_ns - round(window.window_s * 1e9), end_ns)
        assert least * 0.99 <= window.cpu_used_cores <= most * 1.01
        doubts.append(most / least)
        assert window.memory_working_set_mib == pytest.approx(beside.working_set(end_ns), rel=0.02)
        assert window.memory_working_set_mib > 80
        print(f"cores {window.cpu_used_cores:.4f}, by the kernel {least:.4f} to {most:.4f};", end=" ")
        print(f"MiB {window.memory_working_set_mib:.2f}, by the kernel {beside.working_set(end_ns):.2f}")
    assert min(doubts) <= 1.05, "the control group was never read often enough to compare with"


def check_kills(sink, sandboxes):
    assert usage_of(sink, sandboxes["child"])[-1].oom_kills == 1
    assert usage_of(sink, sandboxes["held"])[-1].oom_kills == 0
    (summary,) = [SummaryRecord.from_attributes(span.attributes) for span in sink.spans(SUMMARY)]
    assert summary.keys.sandbox_id == sandboxes["whole"]
    assert (summary.end_reason, summary.oom_killed, summary.oom_kills) == ("failed", True, 1)
    assert summary.usage_source == "docker.stats"


def check_throttling(readings, windows):
    throttled = [reading.cpu_throttled_s for reading in readings]
    assert throttled == sorted(throttled)
    # Held at a fifth of a core it waits for most of the time that others leave to it.
    assert throttled[-1] > throttled[0]
    assert all(window.cpu_used_cores <= 0.2 * 1.05 for window in windows)


def check_execd_beside(sink, sandbox_id):
    readings = of(sink, sandbox_id, SampleRecord, "opensandbox.execd")
    decided = [reading for reading in readings if reading.memory_scope == SampleScope.NODE]
    assert decided
    used = usage_of(sink, sandbox_id)[-1].memory_working_set_mib
    assert all(reading.memory_used_mib != pytest.approx(used, rel=0.1) for reading in decided)
    spans = [span for span in sink.spans(SAMPLE) if names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_CORES in span.attributes]
    scope = (names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE, names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE_EVIDENCE)
    assert {tuple(span.attributes[key] for key in scope) for span in spans} == {
        (SampleScope.SANDBOX, ScopeEvidence.SOURCE)
    }


def test_without_execd_a_deployment_is_read_by_its_usage_source_alone(opensandbox_server, config, otlp_sink, tmp_path):
    config["deployments"][0]["execd"] = False
    config["usage"][0]["interval"] = "2s"
    sandbox_id = opensandbox_server.create("500m", "64Mi")
    with RunningPoller(tmp_path, config) as poller:
        feed(poller.endpoint, start_span(sandbox_id))
        otlp_sink.wait_for(lambda seen: len(windows_of(seen, sandbox_id)) >= 3)
        opensandbox_server.delete(sandbox_id)
        # Nobody tells of its end: its usage source knows it no more, and the control plane is asked.
        otlp_sink.wait_for(lambda seen: seen.spans(SUMMARY))
    assert poller.complaints() == []
    assert of(otlp_sink, sandbox_id, SampleRecord, "opensandbox.execd") == []
    (summary,) = [SummaryRecord.from_attributes(span.attributes) for span in otlp_sink.spans(SUMMARY)]
    assert (summary.end_reason, summary.usage_source) == ("gone", "docker.stats")
    assert set(summary.statistics) == {"cpu_used_cores", "memory_working_set_mib"}
    assert summary.readings_count >= 4
    assert summary.cpu_time_s > 0
    assert summary.allocation.components[0].limits.memory_mib == 64
