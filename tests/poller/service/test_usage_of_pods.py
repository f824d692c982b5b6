"""A whole poller whose sandboxes are pods, and a cluster that tells what they use."""

import pytest

from sandgauge_demo.deployment import DeploymentSettings, Runtime
from sandgauge_demo.deployment.inspect_text import NAMESPACE
from sandgauge_schemas import names
from sandgauge_schemas.names import ErrorType, ResourceSource
from support.feed import feed, start_span, stop_span
from support.running_poller import RunningPoller
from support.simulated_osb import osb_in_thread
from support.stand_in_cluster import StandInCluster

SAMPLE, SUMMARY = names.SPAN_GYM_SANDBOX_RESOURCE_SAMPLE, names.SPAN_GYM_SANDBOX_RESOURCE_SUMMARY
METRICS = f"/apis/metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/pods"


@pytest.fixture
def osb():
    with osb_in_thread(DeploymentSettings(runtime=Runtime.KUBERNETES, metrics_delay_s=0.05)) as deployment:
        yield deployment


@pytest.fixture
def cluster():
    with StandInCluster(NAMESPACE) as served:
        yield served


def samples(seen, sandbox_id):
    """Return the attributes of what the cluster told of a sandbox."""
    of_cluster = [
        span.attributes
        for span in seen.spans(SAMPLE)
        if span.attributes[names.NEMO_GYM_SANDBOX_RESOURCE_SOURCE] == ResourceSource.KUBERNETES_METRICS.value
    ]
    return [found for found in of_cluster if found[names.NEMO_GYM_SANDBOX_ID] == sandbox_id]


def errors(seen, sandbox_id):
    return [found.get(names.ERROR_TYPE) for found in samples(seen, sandbox_id)]


def test_one_list_tells_what_each_sandbox_uses_and_its_summary_says_so(osb, cluster, make_poller, otlp_sink, tmp_path):
    alone, with_sidecar, vanishing = (osb.create(limits={"cpu": "2", "memory": "1Gi"}) for _ in range(3))
    cluster.usage = {
        f"{alone}-0": {"sandbox": ("612348296n", "83148Ki")},
        f"{with_sidecar}-0": {"sandbox": ("250m", "64Mi"), "egress": ("1m", "9Mi")},
        f"{vanishing}-0": {"sandbox": ("1", "1Mi")},
    }
    source = {"kind": "kubernetes", "kubeconfig": str(cluster.kubeconfig(tmp_path)), "interval": "500ms", "pods": True}
    with make_poller(usage=[source]) as poller:
        feed(poller.endpoint, *map(start_span, (alone, with_sidecar, vanishing)))
        otlp_sink.wait_for(lambda seen: None in errors(seen, vanishing))
        del cluster.usage[f"{vanishing}-0"]
        cluster.killed.add(f"{with_sidecar}-0")
        otlp_sink.wait_for(lambda seen: errors(seen, vanishing)[-1:] == [ErrorType.NO_READING.value])
        otlp_sink.wait_for(
            lambda seen: all(errors(seen, each).count(None) >= 3 for each in (alone, with_sidecar)), timeout=60
        )
        feed(poller.endpoint, *map(stop_span, (alone, with_sidecar, vanishing)))
        otlp_sink.wait_for(lambda seen: len(seen.spans(SUMMARY)) == 3)
        assert "hunter2" not in poller.log_file.read_text()
    said = samples(otlp_sink, with_sidecar)
    assert said[0][names.NEMO_GYM_SANDBOX_SAMPLE_CPU_USED_CORES] == 0.251
    assert said[0][names.NEMO_GYM_SANDBOX_SAMPLE_WINDOW_S] == 15.003
    assert said[0][names.NEMO_GYM_SANDBOX_SAMPLE_MEMORY_WORKING_SET_MIB] == 73.0
    times = [one[names.NEMO_GYM_SANDBOX_SAMPLE_TIMESTAMP_MS] for one in said]
    assert len(set(times)) == len(times)
    summaries = {span.attributes[names.NEMO_GYM_SANDBOX_ID]: span.attributes for span in otlp_sink.spans(SUMMARY)}
    for sandbox_id, cores in ((alone, 0.612348296), (with_sidecar, 0.251), (vanishing, 1.0)):
        summary = summaries[sandbox_id]
        assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_USAGE_SOURCE] == ResourceSource.KUBERNETES_METRICS.value
        assert summary[names.NEMO_GYM_SANDBOX_SUMMARY_CPU_USED_CORES_MEAN] == pytest.approx(cores)
    assert summaries[with_sidecar][names.NEMO_GYM_SANDBOX_END_OOM_KILLED] is True
    assert summaries[alone][names.NEMO_GYM_SANDBOX_END_OOM_KILLED] is False
    values = {point.value for point in otlp_sink.points(names.METRIC_GYM_SANDBOX_CPU_USED_CORES)}
    assert {0.612348296, 0.251, 1.0} <= values
    assert set(cluster.requests) == {METRICS, f"/api/v1/namespaces/{NAMESPACE}/pods?limit=500"}


def test_credentials_that_cannot_be_used_keep_a_poller_from_starting(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text("users: []")
    poller = RunningPoller(tmp_path, {"usage": [{"kind": "kubernetes", "kubeconfig": str(file)}]})
    with pytest.raises(RuntimeError, match="contexts: holds no entry of the name that is asked for"):
        poller.start()
    assert poller.stop() == 1
