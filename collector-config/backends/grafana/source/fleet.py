"""The dashboard Fleet: all sandboxes together."""

from __future__ import annotations

from grafana import Column, Json, Query, choice_variable, dashboard, dashboard_link, graph, labels_variable, stat, table

UID = "sandgauge-fleet"

_LIVE = (
    'group by (nemo_gym_sandbox_id, nemo_gym_sandbox_request_id) (gym_sandbox_memory_total_mib{nemo_run_id=~"$run"})'
)
"""The sandboxes that are read at the moment: the series of a sandbox end with it."""

_OWN = 'gym_sandbox_memory_used_mib{nemo_run_id=~"$run",nemo_gym_sandbox_sample_scope="sandbox"}'
"""Memory use, where it is the sandbox's own and not the node's."""

_NOT_READ = "No sandbox is read: none is live, or the poller sends nothing (see Sandgauge itself)."
_NOTHING_TOLD = "No live sandbox told of it. Amounts need otelcol.quantities.yaml; requested ones need the emitter too."


def _requested(metric: str) -> str:
    told = f'max by (nemo_gym_sandbox_request_id) (last_over_time({metric}{{nemo_run_id=~"$run"}}[$lookback]))'
    return f"sum({told} * on (nemo_gym_sandbox_request_id) group_right () {_LIVE})"


def _of_live(metric: str, live: str = _LIVE) -> str:
    told = f'max by (nemo_gym_sandbox_id) (last_over_time({metric}{{nemo_run_id=~"$run"}}[$lookback]))'
    return f"sum({told} and on (nemo_gym_sandbox_id) {live})"


def _amounts(title: str, resource: str, unit: str) -> Json:
    return graph(
        title,
        "Sums over the live sandboxes: what their rollouts declared, what the provider was sent after clamping, and what is in force. Each "
        "sum holds only the sandboxes that told of it: lines may differ because an amount was left to a default, which is not zero.",
        Query(expr=_requested(f"gym_sandbox_requested_{resource}"), legend="requested"),
        Query(expr=_of_live(f"gym_sandbox_submitted_limits_{resource}"), legend="submitted limit"),
        Query(expr=_of_live(f"gym_sandbox_allocation_limits_{resource}"), legend="allocated limit"),
        unit=unit,
        empty=_NOTHING_TOLD,
    )


def _over_reservers() -> Json:
    allocated = 'last_over_time(gym_sandbox_allocation_limits_memory_mib{nemo_run_id=~"$run"}[$__range])'
    highest = f"max by (nemo_gym_sandbox_id) (max_over_time({_OWN}[$__range]))"
    unused = (
        f"topk(10, max by (nemo_run_id, nemo_gym_rollout_id, nemo_gym_sandbox_id) ({allocated}) "
        f"- on (nemo_gym_sandbox_id) group_left () {highest})"
    )
    return table(
        "Top over-reservers",
        "Memory limit in force less the highest reading, of the ten sandboxes with most to spare in this time. Only readings of the "
        "sandbox's own memory are compared with limits, never those of a node. Readings are instants: a peak between two of them is not seen.",
        Column(title="Never used", expr=unused, unit="mbytes"),
        Column(
            title="Allocated limit",
            expr=f"max by (nemo_gym_sandbox_id) ({allocated}) and on (nemo_gym_sandbox_id) {unused}",
            unit="mbytes",
        ),
        Column(title="Highest reading", expr=f"{highest} and on (nemo_gym_sandbox_id) {unused}", unit="mbytes"),
        join_by="nemo_gym_sandbox_id",
        names={"nemo_run_id": "Run", "nemo_gym_rollout_id": "Rollout", "nemo_gym_sandbox_id": "Sandbox"},
        links=_LINKS,
        empty="No sandbox has both a memory limit and a reading of its own memory: where daemons see the node, nothing can be compared.",
    )


def _most_missed() -> Json:
    missed = 'last_over_time(gym_sandbox_readings_missed{nemo_run_id=~"$run"}[$__range])'
    return table(
        "Most missed readings",
        "The ten ended sandboxes with the most readings that were due while they lived and yielded nothing, as their summaries say.",
        Column(
            title="Missed",
            expr=f"topk(10, max by (nemo_run_id, nemo_gym_rollout_id, nemo_gym_sandbox_id) ({missed}) > 0)",
        ),
        join_by="nemo_gym_sandbox_id",
        names={"nemo_run_id": "Run", "nemo_gym_rollout_id": "Rollout", "nemo_gym_sandbox_id": "Sandbox"},
        links=_LINKS,
        empty="No sandbox that ended in this time missed a reading, or none ended. It needs otelcol.quantities.yaml.",
    )


_LINKS = {
    "Rollout": dashboard_link(
        "Rollout", "sandgauge-rollout", "var-run=${__data.fields.Run}&var-rollout=${__value.raw}"
    ),
    "Sandbox": dashboard_link("Sandbox", "sandgauge-sandbox", "var-sandbox=${__value.raw}"),
}

_NUMBERS = [
    stat(
        "Live sandboxes",
        "Sandboxes that the poller knows to be alive: read, or paused at the provider.",
        'sum(sandgauge_poller_sandboxes{deployment=~"$deployment",state=~"active|paused"})',
        unit="short",
        empty="no poller",
    ),
    stat(
        "Leaks",
        "Sandboxes that outlived their rollout or their stop by more than `tracking.orphan_grace` and are still there.",
        'sum(sandgauge_poller_leaks{deployment=~"$deployment"})',
        unit="short",
        empty="no poller",
        alarm_above=1,
    ),
    stat(
        "Failed readings",
        "Share of the readings of the last five minutes that yielded nothing. It counts every failure, also those that began after a stop.",
        'sum(rate(sandgauge_poller_reads{deployment=~"$deployment",kind="sample",outcome!="ok"}[5m])) '
        '/ sum(rate(sandgauge_poller_reads{deployment=~"$deployment",kind="sample"}[5m]))',
        unit="percentunit",
        empty="nothing read, or none failed yet",
        alarm_above=0.1,
    ),
    stat(
        "Failed starts",
        "Start spans in this time that say that nothing was created. The first one since the Collector's start may be missing from the count.",
        'sum(increase(gym_sandbox_spans_calls{span_name="gym.sandbox.start",status_code="STATUS_CODE_ERROR"}[$__range]))',
        unit="short",
        empty="none seen",
        alarm_above=1,
    ),
    stat(
        "Not owned",
        "Sandboxes that no deployment of the poller's configuration owns, so that nobody reads them: add their control plane to `scopes`.",
        'sum(sandgauge_poller_sandboxes{state="unmatched"})',
        unit="short",
        empty="no poller",
        alarm_above=1,
    ),
    stat(
        "Own memory known",
        "Share of the live sandboxes whose memory reading is of the sandbox itself. The others show the node's, or nobody can tell.",
        f'count({_OWN}) / count(gym_sandbox_memory_used_mib{{nemo_run_id=~"$run"}})',
        unit="percentunit",
        empty="of none",
    ),
]


def build() -> Json:
    """Return the dashboard."""
    return dashboard(
        UID,
        "Fleet",
        "All sandboxes together: how many live, what they were asked for and given, what they use, and what goes wrong.",
        [
            labels_variable(
                "deployment",
                "Deployment",
                "Of the poller's configuration. It selects among the poller's own numbers.",
                "label_values(sandgauge_poller_interval_effective, deployment)",
                everything=True,
                several=True,
            ),
            labels_variable(
                "run",
                "Run",
                "It selects among readings and amounts.",
                'label_values({__name__=~"gym_sandbox_(requested_.+|start_duration|memory_used_mib)"}, nemo_run_id)',
                everything=True,
                several=True,
            ),
            choice_variable(
                "lookback",
                "Longest life",
                "Amounts are told once, when a sandbox begins: how far back to look for those of the live ones. Longer is slower.",
                ["1h", "6h", "24h"],
                "6h",
            ),
        ],
        (4, _NUMBERS),
        (8, [_sandboxes(), _starts(), _start_latency()]),
        (9, [_amounts("Memory: requested, submitted, allocated", "memory_mib", "mbytes"), _memory_use()]),
        (9, [_amounts("CPU: requested, submitted, allocated", "cpu", "suffix: cores"), _scopes()]),
        (9, [_over_reservers(), _most_missed()]),
        (8, [_leaks(), _failures()]),
    )


def _sandboxes() -> Json:
    return graph(
        "Sandboxes by state",
        "As the poller knows them. `ending` ones wait for their summary; `unmatched` ones belong to no configured deployment; `not_read` ones "
        "are not to be read.",
        Query(expr='sum by (state) (sandgauge_poller_sandboxes{deployment=~"$deployment"})', legend="{{state}}"),
        unit="short",
        empty="No poller reported: its own metrics come through the Collector (see Sandgauge itself).",
        stacked=True,
    )


def _starts() -> Json:
    calls = "sum by (nemo_gym_sandbox_provider) (rate(gym_sandbox_spans_calls{%s}[$__rate_interval]))"
    return graph(
        "Requests and starts a second",
        "Logical requests, sandboxes that came up, and creations that failed, by provider, as Gym's spans say.",
        Query(expr=calls % 'span_name="gym.sandbox.request"', legend="requests {{nemo_gym_sandbox_provider}}"),
        Query(
            expr=calls % 'span_name="gym.sandbox.start",status_code!="STATUS_CODE_ERROR"',
            legend="started {{nemo_gym_sandbox_provider}}",
        ),
        Query(
            expr=calls % 'span_name="gym.sandbox.start",status_code="STATUS_CODE_ERROR"',
            legend="failed {{nemo_gym_sandbox_provider}}",
        ),
        unit="cps",
        empty="No request or start came through the Collector. It needs otelcol.fleet.yaml.",
    )


def _start_latency() -> Json:
    buckets = (
        "sum by (le, nemo_gym_sandbox_provider) "
        '(rate(gym_sandbox_spans_duration_bucket{span_name="gym.sandbox.start"}[$__rate_interval]))'
    )
    return graph(
        "Time to start",
        "How long creations take, failed ones included: the middle one, and the one that 5 % exceed.",
        Query(expr=f"histogram_quantile(0.5, {buckets})", legend="p50 {{nemo_gym_sandbox_provider}}"),
        Query(expr=f"histogram_quantile(0.95, {buckets})", legend="p95 {{nemo_gym_sandbox_provider}}"),
        unit="s",
        empty="No start came through the Collector. It needs otelcol.fleet.yaml.",
    )


def _memory_use() -> Json:
    return graph(
        "Memory: allocated and used, of sandboxes read themselves",
        "Only live sandboxes whose daemon sees the sandbox's own memory, in both lines alike. Readings of a node are left out: they say nothing "
        "about the size that a sandbox needs.",
        Query(expr=_of_live("gym_sandbox_allocation_limits_memory_mib", _OWN), legend="allocated limit"),
        Query(expr=f"sum({_OWN})", legend="used"),
        unit="mbytes",
        empty="No live sandbox is read itself: the daemons see their nodes, or no memory limit is known to compare with.",
    )


def _scopes() -> Json:
    by_scope = 'count by (nemo_gym_sandbox_sample_scope) (%s{nemo_run_id=~"$run"})'
    return graph(
        "Whose numbers the readings are",
        "Live sandboxes by what their daemon sees: the sandbox itself, the node it shares with others, or undecided. CPU use is never compared "
        "with limits here, since the daemon does not see the sandbox's own.",
        Query(expr=by_scope % "gym_sandbox_memory_used_mib", legend="memory: {{nemo_gym_sandbox_sample_scope}}"),
        Query(expr=by_scope % "gym_sandbox_cpu_used_percentage", legend="CPU: {{nemo_gym_sandbox_sample_scope}}"),
        unit="short",
        empty=_NOT_READ,
    )


def _leaks() -> Json:
    return graph(
        "Leaks by deployment",
        "Sandboxes that outlived their rollout or their stop and are still there; they stay read until they end.",
        Query(expr='sum by (deployment) (sandgauge_poller_leaks{deployment=~"$deployment"})', legend="{{deployment}}"),
        unit="short",
        empty="No poller reported, or it has no deployment.",
    )


def _failures() -> Json:
    return graph(
        "Failed readings a second, by reason",
        "Reads of the daemons that yielded nothing, whatever the reason; one that begins after the stop counts here, and not as missed.",
        Query(
            expr="sum by (deployment, outcome) "
            '(rate(sandgauge_poller_reads{deployment=~"$deployment",kind="sample",outcome!="ok"}[$__rate_interval]))',
            legend="{{deployment}}: {{outcome}}",
        ),
        unit="cps",
        empty="No reading failed since the poller's start, or no poller reported.",
    )
