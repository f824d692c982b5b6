"""The dashboard Sandgauge itself: poller and Collector, what waits in them, and what was lost."""

from __future__ import annotations

from grafana import Column, Json, Query, dashboard, graph, labels_variable, stat, table

UID = "sandgauge-itself"

_NO_POLLER = (
    "No poller reported. Its metrics come through the Collector: look whether both run, and at the poller's log."
)
_NOTHING_READ = f"{_NO_POLLER} Without a live sandbox nothing is read."
_NO_COLLECTOR = "Prometheus does not scrape the Collector, or it is down: look at its health port."
_NO_LOSS = "Nothing was lost or refused since the start of poller and Collector, or neither reports."

_FEED = 'exporter=~"otlp_http/poller.*"'


def _rate(metric: str, by: str, legend: str) -> Query:
    return Query(expr=f"sum by ({by}) (rate({metric}[$__rate_interval]))", legend=legend)


def _quantiles(metric: str, by: str, legend: str) -> list[Query]:
    rate = f'sum by (le, {by}) (rate({metric}_bucket{{deployment=~"$deployment"}}[$__rate_interval]))'
    return [
        Query(expr=f"histogram_quantile({quantile}, {rate})", legend=f"p{percent} {legend}")
        for quantile, percent in ((0.5, 50), (0.99, 99))
    ]


_NUMBERS = [
    stat(
        "Poller",
        "Pollers whose status port answers Prometheus.",
        'sum(up{job="sandgauge-poller-up"})',
        unit="short",
        empty="not scraped",
    ),
    stat(
        "Collector",
        "Collectors that Prometheus reaches.",
        'sum(up{job="otelcol"})',
        unit="short",
        empty="not scraped",
    ),
    stat(
        "Feed queue",
        "How full the Collector's queue of spans for the poller is. Full means that Gym has to keep its spans itself.",
        f"max(otelcol_exporter_queue_size{{{_FEED}}} / otelcol_exporter_queue_capacity{{{_FEED}}})",
        unit="percentunit",
        empty="no Collector",
        alarm_above=0.5,
    ),
    stat(
        "Oldest in the outbox",
        "Age of the oldest record that the Collector has not taken from the poller.",
        "max(sandgauge_poller_outbox_age)",
        unit="s",
        empty="no poller",
        alarm_above=60,
    ),
    stat(
        "Records lost",
        "Spans and points that the poller had to give up in this time: refused for good by the Collector, or dropped from a full outbox.",
        'sum(increase(sandgauge_poller_export_items{outcome=~"rejected|dropped"}[$__range]))',
        unit="short",
        empty="no poller",
        alarm_above=1,
    ),
    stat(
        "Interval",
        "The longest time between two readings of a sandbox that a deployment can carry now. More than configured: it has too few slots.",
        'max(sandgauge_poller_interval_effective{deployment=~"$deployment"})',
        unit="s",
        empty="no deployment",
    ),
]

_ALERTS = table(
    "Alerts that fire",
    "By Prometheus' rules. What each means and what to do stands in its annotations: Alerting, Alert rules in Grafana's menu.",
    Column(
        title="Firing",
        expr="count by (alertname, severity, deployment) "
        '(ALERTS{alertname=~"Sandgauge.+",alertstate="firing",deployment=~"$deployment"})',
    ),
    join_by="alertname",
    names={"alertname": "Alert", "severity": "Severity", "deployment": "Deployment"},
    empty="None fires, or Prometheus does not have the rules.",
)

_READS = [
    graph(
        "Reads a second",
        "What the poller asked of control planes and daemons, by kind and outcome.",
        _rate('sandgauge_poller_reads{deployment=~"$deployment"}', "kind, outcome", "{{kind}}: {{outcome}}"),
        unit="cps",
        empty=_NOTHING_READ,
    ),
    graph(
        "Duration of a read",
        "From sending a read to its last byte, by kind: the middle one, and the one that 1 % exceed.",
        *_quantiles("sandgauge_poller_read_duration", "kind", "{{kind}}"),
        unit="s",
        empty=_NOTHING_READ,
    ),
    graph(
        "Lateness",
        "How much later than planned a read began. Growing lateness says that the poller's machine is too busy.",
        *_quantiles("sandgauge_poller_read_lateness", "deployment", "{{deployment}}"),
        unit="s",
        empty=_NOTHING_READ,
    ),
]

_PACE = [
    graph(
        "Wait for a slot",
        "How long a due read waited because as many as allowed were on their way, by kind.",
        *_quantiles("sandgauge_poller_read_wait", "kind", "{{kind}}"),
        unit="s",
        empty=_NOTHING_READ,
    ),
    graph(
        "Interval that is kept",
        "Time between the readings of a sandbox as each deployment can carry it now; it is stretched where the slots do not suffice.",
        Query(
            expr='max by (deployment) (sandgauge_poller_interval_effective{deployment=~"$deployment"})',
            legend="{{deployment}}",
        ),
        unit="s",
        empty=f"{_NO_POLLER} Without a deployment there is none.",
    ),
    graph(
        "From start to first reading",
        "From the end of the start span to the first good reading.",
        *_quantiles("sandgauge_poller_discovery_lag", "deployment", "{{deployment}}"),
        unit="s",
        empty=f"{_NO_POLLER} No sandbox began in this time.",
    ),
]

_INTAKE = [
    graph(
        "Spans that came in, a second",
        "What became of the lifecycle spans at the poller's ingest port; repeats are normal after an outage.",
        _rate("sandgauge_poller_spans", "outcome, reason", "{{outcome}} {{reason}}"),
        unit="cps",
        empty=f"{_NO_POLLER} No span has come since its start: does Gym send to this Collector?",
    ),
    graph(
        "Age of the outbox",
        "Age of the oldest record that waits for the Collector. It grows while the Collector does not take what is sent.",
        Query(expr="max by (signal) (sandgauge_poller_outbox_age)", legend="{{signal}}"),
        unit="s",
        empty=_NO_POLLER,
    ),
    graph(
        "Size of the outbox",
        "Bytes that wait for the Collector. At `export.sending_queue.max_size` the oldest points are dropped first, then samples.",
        Query(expr="sum by (signal) (sandgauge_poller_outbox_size)", legend="{{signal}}"),
        unit="bytes",
        empty=_NO_POLLER,
    ),
]

_EXPORT = [
    graph(
        "Records out, a second",
        "Spans and points that the poller made, and what became of them.",
        _rate("sandgauge_poller_export_items", "signal, outcome", "{{signal}}: {{outcome}}"),
        unit="cps",
        empty=_NO_POLLER,
    ),
    graph(
        "Records lost, a second",
        "Refused for good by the Collector, or dropped because the outbox was full or the record too old.",
        _rate(
            'sandgauge_poller_export_items{outcome=~"rejected|dropped"}', "signal, outcome", "{{signal}}: {{outcome}}"
        ),
        unit="cps",
        empty=_NO_LOSS,
    ),
    graph(
        "Points left out or restamped, a second",
        "Points that were not sent because a backend would refuse them, and points that took the poller's time because the daemon's clock is off.",
        _rate("sandgauge_poller_points_left_out", "reason", "left out: {{reason}}"),
        _rate(
            'sandgauge_poller_points_restamped{deployment=~"$deployment"}', "deployment", "restamped: {{deployment}}"
        ),
        _rate("sandgauge_poller_conflicts", "kind", "conflict: {{kind}}"),
        unit="cps",
        empty="None since the poller's start, as it should be; or no poller reported.",
    ),
]

_COLLECTOR = [
    graph(
        "Spans through the Collector, a second",
        "Taken in, turned away for want of memory, and passed on to the poller and the traces backend.",
        Query(expr="sum(rate(otelcol_receiver_accepted_spans[$__rate_interval]))", legend="taken in"),
        Query(expr="sum(rate(otelcol_receiver_refused_spans[$__rate_interval]))", legend="refused"),
        _rate("otelcol_exporter_sent_spans", "exporter", "to {{exporter}}"),
        unit="cps",
        empty=_NO_COLLECTOR,
    ),
    graph(
        "Queues of the Collector",
        "How full each is. The one to the poller is on disk and pushes back when full; those to the backends then drop what comes on top.",
        Query(
            expr="max by (exporter, data_type) (otelcol_exporter_queue_size / otelcol_exporter_queue_capacity)",
            legend="{{exporter}} {{data_type}}",
        ),
        unit="percentunit",
        empty=_NO_COLLECTOR,
    ),
    graph(
        "Lost in the Collector, a second",
        "What an exporter gave up: refused for good, waited too long, or met a full queue.",
        *(
            _rate(metric, "exporter", f"{{{{exporter}}}}: {what}")
            for metric, what in (
                ("otelcol_exporter_send_failed_spans", "spans, not sent"),
                ("otelcol_exporter_enqueue_failed_spans", "spans, queue full"),
                ("otelcol_exporter_send_failed_metric_points", "points, not sent"),
                ("otelcol_exporter_enqueue_failed_metric_points", "points, queue full"),
            )
        ),
        unit="cps",
        empty=_NO_LOSS,
    ),
    graph(
        "Memory of the Collector",
        "Resident memory of its process.",
        Query(expr="otelcol_process_memory_rss", legend="{{instance}}"),
        unit="bytes",
        empty=_NO_COLLECTOR,
    ),
]


def build() -> Json:
    """Return the dashboard."""
    return dashboard(
        UID,
        "Sandgauge itself",
        "Whether poller and Collector are well: what they do, what waits in them, and what was lost.",
        [
            labels_variable(
                "deployment",
                "Deployment",
                "Of the poller's configuration.",
                "label_values(sandgauge_poller_interval_effective, deployment)",
                everything=True,
                several=True,
            )
        ],
        (4, _NUMBERS),
        (5, [_ALERTS]),
        (8, _READS),
        (8, _PACE),
        (8, _INTAKE),
        (8, _EXPORT),
        (8, _COLLECTOR),
    )
