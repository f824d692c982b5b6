"""What the poller tells about itself: registered names, units and attributes, sent to the same Collector."""

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from sandgauge_poller.export.messages import TELEMETRY_SCOPE
from sandgauge_poller.self_histograms import SelfHistograms
from sandgauge_poller.self_metrics import SelfMetrics, make_meter_provider
from sandgauge_schemas import names
from sandgauge_schemas.names import ConflictKind
from sandgauge_schemas.version import __version__
from support.conformance import metrics_violations
from support.otlp_proto import plain_attributes, points_of
from support.self_metrics import SELF_METRICS, use_everything


class Sent(list):
    """Keeps what is sent, and says whether it arrived."""

    arrives = True

    def __call__(self, message):
        self.append(ExportMetricsServiceRequest.FromString(message))
        return self.arrives

    def points(self, name):
        return {
            tuple(sorted(point.attributes.items())): point.value for point in points_of(self[-1]) if point.name == name
        }

    def histograms(self, name):
        return {
            tuple(sorted(plain_attributes(point.attributes).items())): point
            for resource in self[-1].resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.histogram.data_points
            if metric.name == name
        }


@pytest.fixture
def sent():
    return Sent()


@pytest.fixture
def histograms():
    return SelfHistograms(TELEMETRY_SCOPE)


@pytest.fixture
def provider(sent, histograms):
    made = make_meter_provider(sent, histograms, interval_s=3600)
    yield made
    made.shutdown()


@pytest.fixture
def metrics(provider, histograms):
    return SelfMetrics(provider.get_meter(TELEMETRY_SCOPE, __version__), histograms)


def test_every_registered_instrument_is_there_and_conforms(provider, metrics, sent):
    use_everything(metrics)
    provider.force_flush()
    assert metrics_violations(sent[-1]) == []
    seen = {
        metric.name
        for resource in sent[-1].resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if scope.scope.name == TELEMETRY_SCOPE
    }
    assert seen == SELF_METRICS


def test_counts_are_told_apart_by_their_attributes(provider, metrics, sent):
    use_everything(metrics)
    provider.force_flush()
    assert sent.points(names.METRIC_SANDGAUGE_POLLER_READS) == {
        (("deployment", "training"), ("kind", "sample"), ("outcome", "ok")): 1,
        (("deployment", "training"), ("kind", "sample"), ("outcome", "timeout")): 1,
        (("deployment", "training"), ("kind", "status"), ("outcome", "not_found")): 1,
    }
    assert sent.points(names.METRIC_SANDGAUGE_POLLER_SPANS) == {
        (("outcome", "accepted"),): 4,
        (("outcome", "ignored"), ("reason", "other_span")): 2,
    }
    assert sent.points(names.METRIC_SANDGAUGE_POLLER_SANDBOXES) == {
        (("deployment", "training"), ("state", "active")): 3,
        (("state", "unmatched"),): 1,
    }
    assert sent.points(names.METRIC_SANDGAUGE_POLLER_EXPORT_ITEMS)[("outcome", "dropped"), ("signal", "traces")] == 3


def test_durations_are_seconds_in_buckets_of_seconds(provider, metrics, sent):
    use_everything(metrics)
    provider.force_flush()
    durations = sent.histograms(names.METRIC_SANDGAUGE_POLLER_READ_DURATION)
    sample = durations[("deployment", "training"), ("kind", "sample")]
    assert (sample.count, sample.sum) == (2, 2.5)
    assert {0.1, 1.0, 2.0} <= set(sample.explicit_bounds)
    waits = sent.histograms(names.METRIC_SANDGAUGE_POLLER_READ_WAIT)
    assert waits[("deployment", "training"), ("kind", "sample")].sum == 1.0


def test_an_export_that_failed_is_made_up_for_by_the_next(provider, metrics, sent):
    sent.arrives = False
    metrics.conflict(ConflictKind.ROLLOUT)
    provider.force_flush()
    sent.arrives = True
    metrics.conflict(ConflictKind.ROLLOUT)
    provider.force_flush()
    assert sent.points(names.METRIC_SANDGAUGE_POLLER_CONFLICTS) == {(("kind", "rollout"),): 2}


def test_the_resource_is_the_poller_alone(provider, metrics, sent):
    metrics.conflict(ConflictKind.ROLLOUT)
    provider.force_flush()
    resource = plain_attributes(sent[-1].resource_metrics[0].resource.attributes)
    assert resource == {names.SERVICE_NAME: "sandgauge-poller", names.SERVICE_VERSION: __version__}


def test_a_shard_names_itself_and_the_environment_adds_nothing(sent, histograms, monkeypatch):
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=other")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "other")
    provider = make_meter_provider(sent, histograms, interval_s=3600, service_instance_id="shard-0")
    SelfMetrics(provider.get_meter(TELEMETRY_SCOPE, __version__), histograms).conflict(ConflictKind.ROLLOUT)
    provider.shutdown()
    resource = plain_attributes(sent[-1].resource_metrics[0].resource.attributes)
    assert resource == {
        names.SERVICE_NAME: "sandgauge-poller",
        names.SERVICE_VERSION: __version__,
        names.SERVICE_INSTANCE_ID: "shard-0",
    }
    assert metrics_violations(sent[-1]) == []
