"""Which metrics with which labels Prometheus holds of this project: from the registry, the overlays and the Collector.

A name reaches Prometheus with `.` and every other character that it does not allow as `_`, and without suffixes.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import yaml

from support.build_cache import REPOSITORY
from telemetry_registry import load_registry

COLLECTOR_CONFIG = REPOSITORY / "collector-config"

SCRAPED = frozenset({"job", "instance"})
"""What Prometheus itself adds to what it scrapes."""

_OF_EXPORTERS = SCRAPED | {"exporter", "data_type"}
COLLECTOR_ITSELF = {
    "otelcol_exporter_queue_size": _OF_EXPORTERS,
    "otelcol_exporter_queue_capacity": _OF_EXPORTERS,
    "otelcol_exporter_sent_spans": _OF_EXPORTERS,
    "otelcol_exporter_send_failed_spans": _OF_EXPORTERS,
    "otelcol_exporter_send_failed_metric_points": _OF_EXPORTERS,
    "otelcol_exporter_enqueue_failed_spans": _OF_EXPORTERS,
    "otelcol_exporter_enqueue_failed_metric_points": _OF_EXPORTERS,
    "otelcol_receiver_accepted_spans": SCRAPED | {"receiver", "transport"},
    "otelcol_receiver_refused_spans": SCRAPED | {"receiver", "transport"},
    "otelcol_process_memory_rss": SCRAPED,
}
"""What the Collector tells about itself, as far as the dashboards use it; it is scraped."""

_PARTS_OF_A_HISTOGRAM = ("_bucket", "_count", "_sum")


def prometheus_name(name: str) -> str:
    """Return what a metric or an attribute is called in Prometheus."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


@cache
def known_metrics() -> Mapping[str, frozenset[str]]:
    """Return the labels of each metric, those that Prometheus adds included."""
    return {
        **dict(_registered()),
        **dict(_quantities()),
        **dict(_fleet()),
        **{name: frozenset(labels) for name, labels in COLLECTOR_ITSELF.items()},
        "up": SCRAPED,
        "ALERTS": frozenset({"alertname", "alertstate", "severity", "deployment"}),
    }


def _registered() -> Iterable[tuple[str, frozenset[str]]]:
    for metric in load_registry().metrics.values():
        labels = {prometheus_name(usage.attribute.name) for usage in metric.usages}
        yield from _series(
            prometheus_name(metric.name), labels | {"job"}, is_histogram=metric.instrument == "histogram"
        )


def _quantities() -> Iterable[tuple[str, frozenset[str]]]:
    for metric in quantities():
        labels = {prometheus_name(attribute["key"]) for attribute in metric["attributes"]}
        yield prometheus_name(metric["name"]), frozenset(labels | {"job"})


def quantities() -> list[dict[str, Any]]:
    """Return the metrics that otelcol.quantities.yaml makes of spans."""
    return list(_connectors("otelcol.quantities.yaml")["signal_to_metrics"]["spans"])


def _fleet() -> Iterable[tuple[str, frozenset[str]]]:
    connector = _connectors("otelcol.fleet.yaml")["span_metrics"]
    always = {"service.name", "span.name", "status.code"}
    labels = {prometheus_name(name) for name in (*always, *(one["name"] for one in connector["dimensions"]))}
    prefix = prometheus_name(connector["namespace"])
    yield f"{prefix}_calls", frozenset(labels | {"job"})
    yield from _series(f"{prefix}_duration", labels | {"job"}, is_histogram=True)


def _connectors(overlay: str) -> dict[str, Any]:
    return dict(yaml.safe_load((COLLECTOR_CONFIG / overlay).read_text())["connectors"])


def _series(name: str, labels: set[str], *, is_histogram: bool) -> Iterable[tuple[str, frozenset[str]]]:
    if not is_histogram:
        yield name, frozenset(labels)
        return
    for part in _PARTS_OF_A_HISTOGRAM:
        yield f"{name}{part}", frozenset(labels | {"le"})
