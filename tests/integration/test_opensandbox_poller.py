"""The poller reads real sandboxes of a real opensandbox-server: allocation, placement, what execd says, the end."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from sandgauge_schemas import names
from support.feed import feed, start_span, stop_span
from support.running_poller import RunningPoller

pytestmark = pytest.mark.integration

ALLOCATION, SAMPLE, SUMMARY = (
    names.SPAN_GYM_SANDBOX_RESOURCE_ALLOCATION,
    names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE,
    names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY,
)
LIMITS = {("500m", "128Mi"): (0.5, 128.0), ("125m", "129M"): (0.12, 123.0), ("1500m", "256Mi"): (1.5, 256.0)}
"""What is asked for, and what Docker's inspect text makes of it: rounded, and said to be."""


@pytest.fixture
def sandboxes(opensandbox_server):
    """Ids of three sandboxes with different limits and one without any, by what is allocated."""
    asked = [*LIMITS, (None, None)]
    with ThreadPoolExecutor() as pool:
        ids = list(pool.map(lambda shape: opensandbox_server.create(*shape), asked))
    yield dict(zip(ids, [*LIMITS.values(), None], strict=True))
    for sandbox_id in ids:
        opensandbox_server.request("DELETE", f"/v1/sandboxes/{sandbox_id}")


@pytest.mark.parametrize("use_server_proxy", ["auto", "true"])
def test_allocation_placement_samples_scope_and_end(
    opensandbox_server, sandboxes, otlp_sink, tmp_path, use_server_proxy
):
    deployment = {
        "name": "training",
        "endpoint": opensandbox_server.endpoint,
        "api_key": opensandbox_server.api_key,
        "use_server_proxy": use_server_proxy,
    }
    config = {
        "deployments": [deployment],
        "sampling": {"collection_interval": "2s", "min_interval": "1s"},
        "export": {"endpoint": otlp_sink.endpoint},
    }
    stopped, *_ = sandboxes
    # OpenSandbox shows twelve digits of a container's id.
    containers = {
        id_: opensandbox_server.daemon.docker("inspect", "-f", "{{.Id}}", f"sandbox-{id_}")[:12] for id_ in sandboxes
    }
    with RunningPoller(tmp_path, config) as poller:
        feed(poller.endpoint, *(start_span(sandbox_id) for sandbox_id in sandboxes))
        otlp_sink.wait_for(lambda seen: all(len(good_samples(seen, id_)) >= 2 for id_ in sandboxes))
        for sandbox_id in sandboxes:
            opensandbox_server.delete(sandbox_id)
        feed(poller.endpoint, stop_span(stopped))
        # Nobody tells of the others' end: the control plane is asked, twice.
        otlp_sink.wait_for(lambda seen: len(seen.spans(SUMMARY)) == len(sandboxes))
    assert poller.complaints() == []
    for sandbox_id, allocated in sandboxes.items():
        check_allocation(only(otlp_sink, ALLOCATION, sandbox_id), allocated, opensandbox_server, containers[sandbox_id])
        for sample in good_samples(otlp_sink, sandbox_id):
            check_sample(sample, allocated)
        reason = only(otlp_sink, SUMMARY, sandbox_id)[names.NEMO_GYM_SANDBOX_END_REASON]
        assert reason == ("stopped" if sandbox_id == stopped else "gone")


def check_allocation(attributes, allocated, server, container):
    assert attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_ID] == container
    assert attributes[names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE] == "opensandbox.inspect/docker"
    assert attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_KIND] == "docker-container"
    assert attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_DESIGNATOR_SCOPE] == server.endpoint
    if allocated is None:
        assert attributes[names.ERROR_TYPE] == "no_supported_quantity"
        return
    assert attributes[names.NEMO_GYM_SANDBOX_RESOURCE_STATUS] == "ok"
    assert attributes[names.allocation_component_name(0)] == "sandbox"
    limits = names.allocation_component_limits_prefix(0)
    assert (attributes[f"{limits}.cpu"], attributes[f"{limits}.memory_mib"]) == allocated
    assert attributes[names.NEMO_GYM_SANDBOX_ALLOCATION_NOTE] == ["rounded"]


def check_sample(sample, allocated):
    """In an ordinary container execd shows the node's memory; without a limit nothing betrays that."""
    node = (names.SampleScope.NODE, names.ScopeEvidence.TOTAL_EXCEEDS_LIMIT)
    expected = node if allocated else (names.SampleScope.UNKNOWN, names.ScopeEvidence.NO_LIMIT)
    memory = (names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE, names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_SCOPE_EVIDENCE)
    assert tuple(sample.attributes[key] for key in memory) == expected
    assert sample.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_CPU_SCOPE] == expected[0]
    assert sample.end_ns - sample.start_ns >= 1_000_000_000
    window_ms = (sample.start_ns // 10**6 - 100, sample.end_ns // 10**6)
    assert window_ms[0] <= sample.attributes[names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS] <= window_ms[1]


def of(sink, name, sandbox_id):
    return [span for span in sink.spans(name) if span.attributes[names.NEMO_GYM_SANDBOX_ID] == sandbox_id]


def only(sink, name, sandbox_id):
    (span,) = of(sink, name, sandbox_id)
    return span.attributes


def good_samples(sink, sandbox_id):
    status = names.NEMO_GYM_SANDBOX_RESOURCE_STATUS
    return [span for span in of(sink, SAMPLE, sandbox_id) if span.attributes[status] == "ok"]
