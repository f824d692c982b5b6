"""A sandbox as JSON. What is not known is left out; times are Unix seconds, amounts those of the telemetry contract."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from sandgauge_poller.reading.scope import main_component
from sandgauge_poller.status.fleet import Standing, began_ns, ended_ns, is_leaked
from sandgauge_poller.tracking.active_set import Tracked
from sandgauge_poller.tracking.progress import ScopeDecision
from sandgauge_poller.tracking.quantities import EXECD_QUANTITIES, USAGE_QUANTITIES
from sandgauge_poller.tracking.recent import Hour, minute_of
from sandgauge_schemas.names import ResourceSource
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import Allocation, RequestRecord
from sandgauge_schemas.resources import RESOURCE_KEYS, SandboxResourceAmounts

Json = dict[str, Any]

STEP_S = 60
"""Seconds from one point of a plot to the next."""


def row(sandbox: Tracked, standing: Standing) -> Json:
    """Return what a table shows of a sandbox, with its plots."""
    keys, end = sandbox.keys, sandbox.progress.end
    return known(
        {
            "deployment": sandbox.deployment,
            "provider": keys.provider,
            "sandbox_id": sandbox.key.sandbox_id,
            "run_id": keys.run_id,
            "rollout_id": keys.rollout_id,
            "state": standing.state.value,
            "leaked": is_leaked(sandbox),
            "started_at": seconds(began_ns(sandbox)),
            "ended_at": seconds(ended_ns(sandbox)),
            "end_reason": end.reason.value if end is not None else None,
            "oom_killed": sandbox.progress.oom_killed,
            "allocation": _allocation(sandbox),
            "interval_s": standing.interval_s,
            "lateness_s": standing.lateness_s,
            "reading": _reading(sandbox),
            "usage": _usage(sandbox),
            "plot": _plot(sandbox, standing.now_ns),
        }
    )


def detailed_row(sandbox: Tracked, standing: Standing, request: RequestRecord | None) -> Json:
    """Return a row, and what is shown of a sandbox that somebody chose; `request` is the one it came of."""
    progress, start, keys = sandbox.progress, sandbox.lifecycle.start, sandbox.keys
    submission = start.record.submission if start is not None else None
    more = {
        "request_id": keys.request_id,
        "trace_id": start.trace_id.hex() if start is not None else None,
        "scope": start.record.scope if start is not None else None,
        "requested": amounts(request.requested) if request is not None else None,
        "submitted": known(
            {
                "requests": amounts(submission.requests) or None,
                "limits": amounts(submission.limits) or None,
                "sdk_default": submission.sdk_default,
            }
        )
        if submission is not None
        else None,
        "expires_at": seconds(progress.expires_at_ns),
        "readings": {"count": progress.readings, "missed": progress.missed},
        "resets": progress.resets,
        "statistics": {
            key: {"min": found.min, "mean": found.mean, "max": found.max, "last": found.last}
            for metric, key in (EXECD_QUANTITIES | USAGE_QUANTITIES).items()
            if metric in progress.statistics
            for found in (progress.statistics[metric].result(),)
        },
    }
    return row(sandbox, standing) | known(more)


def known(fields: Mapping[str, Any]) -> Json:
    """Return the fields that have a value."""
    return {key: value for key, value in fields.items() if value is not None}


def plot(hours: Mapping[str, Hour | None], now_ns: int) -> Json | None:
    """Return the points of an hour by quantity: each list ends with the minute that begins at `end`; None for none.

    A minute without a reading is null.
    """
    minute = minute_of(now_ns)
    series = {key: _rounded(hour.until(minute)) for key, hour in hours.items() if hour is not None}
    found = {key: points for key, points in series.items() if points}
    return {"end": minute * STEP_S, "step_s": STEP_S, **found} if found else None


def _plot(sandbox: Tracked, now_ns: int) -> Json | None:
    recent = sandbox.recent
    if recent is None:
        return None
    return plot(
        {
            "cpu_used_percentage": recent.cpu_used_percentage,
            "memory_used_mib": recent.memory_used_mib,
            "cpu_used_cores": recent.cpu_used_cores,
            "memory_working_set_mib": recent.memory_working_set_mib,
        },
        now_ns,
    )


def _allocation(sandbox: Tracked) -> Json | None:
    """Return what is in force as last known, and how the last look at it went."""
    progress = sandbox.progress
    status = progress.allocation_status
    if status is None:
        return None
    in_force, placed = progress.allocation or Allocation(), progress.recorded_allocation or Allocation()
    components = [
        {"name": component.name, "requests": amounts(component.requests), "limits": amounts(component.limits)}
        for component in in_force.components
    ]
    main = main_component(in_force.components)
    return known(
        {
            "source": status.source,
            "error_type": status.error_type,
            "components": components or None,
            "main_component": main.name if main is not None else None,
            "notes": in_force.notes or None,
            "designator": identity(placed.designator),
            "host": identity(placed.host),
        }
    )


def _reading(sandbox: Tracked) -> Json | None:
    progress, recent = sandbox.progress, sandbox.recent
    numbers = _last(sandbox, EXECD_QUANTITIES)
    if not numbers and not progress.failed_in_a_row_ns:
        return None
    failed = bool(progress.failed_in_a_row_ns)
    return known(
        {
            "source": ResourceSource.OPENSANDBOX_EXECD.value,
            "at": seconds(progress.last_reading_ns),
            "failed_in_a_row": len(progress.failed_in_a_row_ns),
            "error_type": recent.error_type if recent is not None and failed else None,
            **numbers,
            **_scope("cpu", progress.cpu),
            **_scope("memory", progress.memory),
        }
    )


def _usage(sandbox: Tracked) -> Json | None:
    usage, recent = sandbox.progress.usage, sandbox.recent
    if usage is None:
        return None
    failed = bool(usage.failed_in_a_row_ns)
    return known(
        {
            "source": usage.source.value,
            "at": seconds(usage.last_reading_ns),
            "failed_in_a_row": len(usage.failed_in_a_row_ns),
            "error_type": recent.usage_error_type if recent is not None and failed else None,
            **_last(sandbox, USAGE_QUANTITIES),
            "oom_kills": usage.kills,
        }
    )


def _last(sandbox: Tracked, quantities: Mapping[str, str]) -> dict[str, float]:
    statistics = sandbox.progress.statistics
    return {key: statistics[metric].last for metric, key in quantities.items() if metric in statistics}


def _scope(quantity: str, decision: ScopeDecision | None) -> dict[str, str]:
    if decision is None:
        return {}
    return {f"{quantity}_scope": decision.scope.value, f"{quantity}_scope_evidence": decision.evidence.value}


def amounts(found: SandboxResourceAmounts) -> Json:
    """Return the amounts that are known."""
    return known({key.value: getattr(found, key) for key in RESOURCE_KEYS})


def identity(found: Identity | None) -> dict[str, str] | None:
    """Return a part of placement."""
    return None if found is None else {"kind": found.kind, "scope": found.scope, "id": found.id}


def seconds(time_ns: int | None) -> float | None:
    """Return a time in seconds since the epoch."""
    return None if time_ns is None else round(time_ns / 1e9, 3)


def _rounded(points: Iterable[float | None]) -> list[float | None]:
    """Return points as they can be seen apart: they are kept with seven digits anyway."""
    return [None if point is None or not isfinite(point) else float(f"{point:.4g}") for point in points]
