"""The dashboard Sandbox: one sandbox, its readings with their scope, and its life."""

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

UID = "sandgauge-sandbox"

_SANDBOX = 'nemo_gym_sandbox_id="$sandbox"'
_TAGS = 'nemo.gym.sandbox.id="$sandbox"'

_PICK = "Pick a sandbox above, and a time in which it lived."
_NO_READINGS = f"This sandbox was not read in this time. {_PICK}"
_NO_SUMMARY = (
    f"It has not ended in this time, or its summary waits for the rollout. {_PICK} It needs otelcol.quantities.yaml."
)


def _told(metric: str) -> str:
    return f"max(last_over_time({metric}{{{_SANDBOX}}}[$__range]))"


def _requested(metric: str) -> str:
    request = (
        f"group by (nemo_gym_sandbox_request_id) (last_over_time(gym_sandbox_start_duration{{{_SANDBOX}}}[$__range]))"
    )
    return f"max(last_over_time({metric}[$__range]) and on (nemo_gym_sandbox_request_id) {request})"


def _quantity(title: str, description: str, expr: str, unit: str) -> Json:
    return stat(title, description, expr, unit=unit, empty="not told")


_REQUESTED = "What the rollout declared for each sandbox of the request. Not told without the emitter, or where nothing was declared."
_SUBMITTED = "The limit that the provider client sent, after clamping. Not told where it was left to the default of the provider's SDK."
_ALLOCATED = (
    "The limit in force, as the control plane says. Not told where there is none, or the control plane does not say."
)


def build() -> Json:
    """Return the dashboard."""
    return dashboard(
        UID,
        "Sandbox",
        "One sandbox: what it was asked for and given, its readings with whose machine they are of, and how it lived and ended.",
        [
            labels_variable(
                "run",
                "Run",
                "It narrows the list of sandboxes.",
                'label_values({__name__=~"gym_sandbox_(start_duration|memory_used_mib)"}, nemo_run_id)',
                everything=True,
            ),
            labels_variable(
                "rollout",
                "Rollout",
                "It narrows the list of sandboxes.",
                'label_values({__name__=~"gym_sandbox_(start_duration|memory_used_mib)",nemo_run_id=~"$run"}, nemo_gym_rollout_id)',
                everything=True,
            ),
            labels_variable(
                "sandbox",
                "Sandbox",
                "The provider's id of one sandbox.",
                'label_values({__name__=~"gym_sandbox_(start_duration|memory_used_mib)",nemo_run_id=~"$run",'
                'nemo_gym_rollout_id=~"$rollout"}, nemo_gym_sandbox_id)',
            ),
        ],
        (
            4,
            [
                _quantity("Memory requested", _REQUESTED, _requested("gym_sandbox_requested_memory_mib"), "mbytes"),
                _quantity("Memory submitted", _SUBMITTED, _told("gym_sandbox_submitted_limits_memory_mib"), "mbytes"),
                _quantity("Memory allocated", _ALLOCATED, _told("gym_sandbox_allocation_limits_memory_mib"), "mbytes"),
                _quantity("CPU requested", _REQUESTED, _requested("gym_sandbox_requested_cpu"), "suffix: cores"),
                _quantity("CPU submitted", _SUBMITTED, _told("gym_sandbox_submitted_limits_cpu"), "suffix: cores"),
                _quantity("CPU allocated", _ALLOCATED, _told("gym_sandbox_allocation_limits_cpu"), "suffix: cores"),
            ],
        ),
        (10, [_memory(), _cpu()]),
        (7, [_start(), _ending()]),
        (8, [_traces()]),
        links=[explore_link("Trace of this sandbox", _TAGS)],
    )


def _memory() -> Json:
    scope = "({{nemo_gym_sandbox_sample_scope}})"
    own = f'gym_sandbox_memory_used_mib{{{_SANDBOX},nemo_gym_sandbox_sample_scope="sandbox"}}'
    limit = f"last_over_time(gym_sandbox_allocation_limits_memory_mib{{{_SANDBOX}}}[$__range])"
    return graph(
        "Memory",
        "Readings as the daemon gave them, with whose memory they are of. The limit is drawn only where the reading is the sandbox's own: a "
        "node's numbers cannot be compared with it.",
        Query(expr=f"gym_sandbox_memory_used_mib{{{_SANDBOX}}}", legend=f"used {scope}"),
        Query(expr=f"gym_sandbox_memory_total_mib{{{_SANDBOX}}}", legend=f"total that the daemon sees {scope}"),
        Query(
            expr=f"max by (nemo_gym_sandbox_id) ({limit}) and on (nemo_gym_sandbox_id) {own}", legend="allocated limit"
        ),
        unit="mbytes",
        empty=_NO_READINGS,
    )


def _cpu() -> Json:
    return graph(
        "CPU",
        "Use in percent of the CPUs that the daemon sees, with whose CPUs those are. Constant zero is shown as read; its scope says unknown.",
        Query(expr=f"gym_sandbox_cpu_used_percentage{{{_SANDBOX}}}", legend="used ({{nemo_gym_sandbox_sample_scope}})"),
        unit="percent",
        empty=_NO_READINGS,
    )


def _start() -> Json:
    return table(
        "Start",
        "Run, rollout and request that the sandbox belongs to, and how long its creation took.",
        Column(title="Took", expr=f"last_over_time(gym_sandbox_start_duration{{{_SANDBOX}}}[$__range])", unit="s"),
        join_by="nemo_gym_sandbox_id",
        names={
            "nemo_run_id": "Run",
            "nemo_gym_rollout_id": "Rollout",
            "nemo_gym_sandbox_request_id": "Request",
            "nemo_gym_sandbox_provider": "Provider",
        },
        links={
            "Rollout": dashboard_link(
                "Rollout", "sandgauge-rollout", "var-run=${__data.fields.Run}&var-rollout=${__value.raw}"
            )
        },
        empty=f"Its start is not in this time. {_PICK} It needs otelcol.quantities.yaml.",
    )


def _ending() -> Json:
    return table(
        "End",
        "What its summary says; where it was found alive after its end, the later summary.",
        Column(title="Lived", expr=last_summary("gym_sandbox_lifetime_s", _SANDBOX), unit="s"),
        Column(
            title="Readings",
            expr=f"max by (nemo_gym_sandbox_id) (last_over_time(gym_sandbox_readings_count{{{_SANDBOX}}}[$__range]))",
        ),
        Column(
            title="Missed",
            expr=f"max by (nemo_gym_sandbox_id) (last_over_time(gym_sandbox_readings_missed{{{_SANDBOX}}}[$__range]))",
        ),
        join_by="nemo_gym_sandbox_id",
        names={
            "nemo_gym_sandbox_end_reason": "Ended",
            "nemo_gym_sandbox_end_oom_killed": "Out of memory",
            "nemo_gym_sandbox_leaked": "Leaked",
        },
        empty=_NO_SUMMARY,
    )


def _traces() -> Json:
    return traces(
        "Its traces",
        "Where its readings and its summary stand: start, allocations, readings with scope and evidence, failed ones too, and its end. "
        "The trace id opens it.",
        _TAGS,
        empty=f"Jaeger holds no reading of this sandbox, or has forgotten it. {_PICK}",
    )
