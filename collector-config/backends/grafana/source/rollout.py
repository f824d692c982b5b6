"""The dashboard Rollout: the sandboxes of one rollout, the quantities of each side by side, and the way to its trace."""

from __future__ import annotations

from grafana import (
    Column,
    Json,
    Query,
    dashboard,
    dashboard_link,
    explore_link,
    graph,
    labels_variable,
    last_summary,
    stat,
    table,
    traces,
)

UID = "sandgauge-rollout"

_ROLLOUT = 'nemo_run_id="$run",nemo_gym_rollout_id="$rollout"'
_TAGS = 'nemo.run.id="$run" nemo.gym.rollout.id="$rollout"'

_STARTED = (
    "group by (nemo_gym_sandbox_id, nemo_gym_sandbox_request_id) "
    f"(last_over_time(gym_sandbox_start_duration{{{_ROLLOUT}}}[$__range]))"
)

_PICK = "Pick run and rollout above, and a time in which it ran."
_NO_AMOUNTS = f"No span of this rollout told of it in this time. {_PICK} It needs otelcol.quantities.yaml."
_NO_READINGS = (
    f"No sandbox of this rollout was read in this time. {_PICK} With stock Gym alone readings carry no rollout id."
)

_LINKS = {"Sandbox": dashboard_link("Sandbox", "sandgauge-sandbox", "var-sandbox=${__value.raw}")}
_SANDBOX = {"nemo_gym_sandbox_id": "Sandbox"}


def _told(metric: str, function: str = "last_over_time") -> str:
    return f"max by (nemo_gym_sandbox_id) ({function}({metric}{{{_ROLLOUT}}}[$__range]))"


def _requested(metric: str) -> str:
    told = f"max by (nemo_gym_sandbox_request_id) (last_over_time({metric}{{{_ROLLOUT}}}[$__range]))"
    return f"max by (nemo_gym_sandbox_id) ({told} * on (nemo_gym_sandbox_request_id) group_right () {_STARTED})"


def _highest(metric: str, scope: str) -> str:
    series = f"{metric}{{{_ROLLOUT},nemo_gym_sandbox_sample_scope{scope}}}"
    return f"max by (nemo_gym_sandbox_id) (max_over_time({series}[$__range]))"


def build() -> Json:
    """Return the dashboard."""
    return dashboard(
        UID,
        "Rollout",
        "One rollout: its sandboxes, what each was asked for, was sent, got and used, and its trace.",
        [
            labels_variable(
                "run",
                "Run",
                "Rollout ids repeat between runs, so a rollout is both.",
                'label_values({__name__=~"gym_sandbox_(requested_.+|start_duration|memory_used_mib)"}, nemo_run_id)',
            ),
            labels_variable(
                "rollout",
                "Rollout",
                "One rollout of the run.",
                'label_values({__name__=~"gym_sandbox_(requested_.+|start_duration|memory_used_mib)",nemo_run_id="$run"}, '
                "nemo_gym_rollout_id)",
            ),
        ],
        (4, _NUMBERS),
        (8, [_memory(), _cpu()]),
        (8, [_endings(), _requests()]),
        (9, [_memory_readings(), _cpu_readings()]),
        (8, [_traces()]),
        links=[explore_link("Traces of this rollout", _TAGS)],
    )


_NUMBERS = [
    stat(
        "Sandboxes asked for",
        "Logical requests of this rollout; a retry of the provider is no request, and one request may be for several sandboxes.",
        "count(count by (nemo_gym_sandbox_request_id) "
        f'(last_over_time({{__name__=~"gym_sandbox_requested_.+",{_ROLLOUT}}}[$__range])))',
        unit="short",
        empty="no request told an amount",
    ),
    stat(
        "Sandboxes started",
        "Sandboxes that came up for this rollout.",
        f"count({_STARTED})",
        unit="short",
        empty="none in this time",
    ),
    stat(
        "Missed readings",
        "Readings of this rollout's ended sandboxes that were due while they lived and yielded nothing.",
        f"sum({_told('gym_sandbox_readings_missed')})",
        unit="short",
        empty="none has ended",
        alarm_above=1,
    ),
    stat(
        "Leaked",
        "Sandboxes that outlived this rollout, or their stop, as their summaries say. Those still alive are on Fleet.",
        f'count(count by (nemo_gym_sandbox_id) (last_over_time(gym_sandbox_readings_missed{{{_ROLLOUT},nemo_gym_sandbox_leaked="true"}}[$__range])))',
        unit="short",
        empty="none known",
        alarm_above=1,
    ),
]


def _memory() -> Json:
    return table(
        "Memory of each sandbox",
        "What was declared, what was sent after clamping, what is in force, and the highest readings. Only a reading of the sandbox itself may be "
        "compared with the limit; one of the node, or of nobody knows what, stands apart. A dash is unknown, never zero.",
        Column(title="Requested", expr=_requested("gym_sandbox_requested_memory_mib"), unit="mbytes"),
        Column(title="Submitted limit", expr=_told("gym_sandbox_submitted_limits_memory_mib"), unit="mbytes"),
        Column(title="Allocated limit", expr=_told("gym_sandbox_allocation_limits_memory_mib"), unit="mbytes"),
        Column(title="Used, sandbox's own", expr=_highest("gym_sandbox_memory_used_mib", '="sandbox"'), unit="mbytes"),
        Column(
            title="Used, node or unknown", expr=_highest("gym_sandbox_memory_used_mib", '!="sandbox"'), unit="mbytes"
        ),
        join_by="nemo_gym_sandbox_id",
        names=_SANDBOX,
        links=_LINKS,
        empty=_NO_AMOUNTS,
    )


def _cpu() -> Json:
    return table(
        "CPU of each sandbox",
        "What was declared, sent and is in force, and the highest reading in percent of the CPUs that the daemon sees. Those are seldom the "
        "sandbox's own: such a percentage cannot be compared with the limit.",
        Column(title="Requested", expr=_requested("gym_sandbox_requested_cpu"), unit="suffix: cores"),
        Column(title="Submitted limit", expr=_told("gym_sandbox_submitted_limits_cpu"), unit="suffix: cores"),
        Column(title="Allocated limit", expr=_told("gym_sandbox_allocation_limits_cpu"), unit="suffix: cores"),
        Column(title="CPUs the daemon sees", expr=_told("gym_sandbox_cpu_count"), unit="suffix: cores"),
        Column(
            title="Used, of those",
            expr=_told("gym_sandbox_cpu_used_percentage", "max_over_time"),
            unit="percent",
        ),
        join_by="nemo_gym_sandbox_id",
        names=_SANDBOX,
        links=_LINKS,
        empty=_NO_AMOUNTS,
    )


def _endings() -> Json:
    return table(
        "How each sandbox ended",
        "As its summary says; of one that was found alive after its end, the later summary.",
        Column(title="Lived", expr=last_summary("gym_sandbox_lifetime_s", _ROLLOUT), unit="s"),
        Column(title="Readings", expr=_told("gym_sandbox_readings_count")),
        Column(title="Missed", expr=_told("gym_sandbox_readings_missed")),
        join_by="nemo_gym_sandbox_id",
        names={
            **_SANDBOX,
            "nemo_gym_sandbox_end_reason": "Ended",
            "nemo_gym_sandbox_end_oom_killed": "Out of memory",
            "nemo_gym_sandbox_leaked": "Leaked",
        },
        links=_LINKS,
        empty=f"No sandbox of this rollout has ended in this time. {_PICK} It needs otelcol.quantities.yaml.",
    )


def _requests() -> Json:
    by = "max by (nemo_gym_sandbox_request_id)"
    return table(
        "Requests",
        "What the rollout declared for each sandbox of a request, and how many came up. A request without a sandbox failed, or waits.",
        Column(
            title="Memory",
            expr=f"{by} (last_over_time(gym_sandbox_requested_memory_mib{{{_ROLLOUT}}}[$__range]))",
            unit="mbytes",
        ),
        Column(
            title="CPU",
            expr=f"{by} (last_over_time(gym_sandbox_requested_cpu{{{_ROLLOUT}}}[$__range]))",
            unit="suffix: cores",
        ),
        Column(title="Sandboxes", expr=f"count by (nemo_gym_sandbox_request_id) ({_STARTED})"),
        join_by="nemo_gym_sandbox_request_id",
        names={"nemo_gym_sandbox_request_id": "Request"},
        empty=f"{_NO_AMOUNTS} Requests come from the emitter alone.",
    )


def _memory_readings() -> Json:
    return graph(
        "Memory readings",
        "The latest reading of each sandbox, with whose memory it is. A line ends when its sandbox does.",
        Query(
            expr=f"gym_sandbox_memory_used_mib{{{_ROLLOUT}}}",
            legend="{{nemo_gym_sandbox_id}} ({{nemo_gym_sandbox_sample_scope}})",
        ),
        unit="mbytes",
        empty=_NO_READINGS,
    )


def _cpu_readings() -> Json:
    return graph(
        "CPU readings",
        "The latest reading of each sandbox in percent of what its daemon sees, with whose CPUs those are.",
        Query(
            expr=f"gym_sandbox_cpu_used_percentage{{{_ROLLOUT}}}",
            legend="{{nemo_gym_sandbox_id}} ({{nemo_gym_sandbox_sample_scope}})",
        ),
        unit="percent",
        empty=_NO_READINGS,
    )


def _traces() -> Json:
    return traces(
        "Traces of this rollout",
        "The rollout with its requests, its sandboxes and their readings, found by the poller's spans; the trace id opens it.",
        _TAGS,
        empty=f"Jaeger holds no reading of this rollout, or has forgotten it. {_PICK} A rollout without a sandbox is not found this way.",
    )
