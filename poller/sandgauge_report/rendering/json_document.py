"""A report as one JSON document; its shape is that of docs/report.schema.json. What is unknown is null."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sandgauge_report.findings import HEADLINES, Finding
from sandgauge_report.grouping import Row, Side
from sandgauge_report.merging.sandboxes import Creation, Sandbox, Series
from sandgauge_report.rendering.report import Report
from sandgauge_report.sizing import Advice
from sandgauge_schemas.names import Resource
from sandgauge_schemas.resources import SandboxResourceAmounts

VERSION = 1
"""Of the shape; it rises when something that was there changes or goes."""

_SUMMED = (Resource.CPU, Resource.MEMORY_MIB, Resource.DISK_GIB, Resource.GPU)


def json_document(report: Report) -> Iterator[str]:
    """Yield the document piece by piece, a row or a finding on a line of its own, as each is made."""
    account = report.account
    head = {
        "version": VERSION,
        "input": {
            "files": account.files,
            "unread": account.unread,
            "spans": account.spans,
            "bad_line_count": account.bad_line_count,
            "bad_lines": [str(bad) for bad in account.bad_lines],
        },
        "note": report.note,
        "by": report.by,
    }
    yield "{\n"
    for key, value in head.items():
        yield f'"{key}": {_json(value)},\n'
    yield from _list("rows", map(_row, report.rows))
    yield ",\n"
    yield from _list("findings", map(_finding, report.findings))
    yield "\n}\n"


def _list(key: str, values: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield f'"{key}": ['
    separator = "\n"
    for value in values:
        yield f"{separator}{_json(value)}"
        separator = ",\n"
    yield "\n]"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _row(row: Row) -> dict[str, Any]:
    only = row.only
    return {
        "run_id": row.run_id,
        "task": row.task,
        "rollout_id": row.rollout_id,
        "trace_id": row.trace_id,
        "provider": row.provider,
        "sandboxes": {str(creation): row.creations[creation] for creation in Creation},
        **{str(side): {str(resource): _total(row, side, resource) for resource in _SUMMED} for side in Side},
        "sdk_default": row.count(lambda one: one.submission is not None and one.submission.sdk_default),
        "sampled": [_series(row, series) for series in row.series],
        "readings": {"count": row.readings, "missed": row.missed, "failed": dict(row.failures)},
        "lifetime_s": _lifetimes(row),
        "ends": {end or "unknown": count for end, count in row.ends.items()},
        "killed_for_memory": row.count(lambda one: one.oom_killed or bool(one.oom_kills)),
        "leaked": row.count(lambda one: one.leaked),
        "advice": [_advice(advice) for advice in row.advice],
        "sandbox": None if only is None else _sandbox(only),
    }


def _total(row: Row, side: Side, resource: Resource) -> dict[str, Any] | None:
    total = row.total(side, resource)
    return None if total is None else {"sum": total.sum, "known": total.known, "of": total.of}


def _series(row: Row, series: Series) -> dict[str, Any]:
    return {
        "quantity": series.key.quantity,
        "source": series.key.source or None,
        "scope": series.key.scope,
        "sandboxes": row.sandboxes_with(series.key),
        "readings": series.readings,
        "is_exact": series.is_exact,
        "min": series.min,
        "mean": series.mean,
        "p95": series.p95,
        "max": series.max,
        "last": series.last if row.only is not None else None,
        "window_s": series.window_s,
        "share_of_limit": row.share_of_limit(series.key),
    }


def _lifetimes(row: Row) -> dict[str, Any] | None:
    lifetimes = row.lifetimes_s
    return {"sum": sum(lifetimes), "max": max(lifetimes), "known": len(lifetimes)} if lifetimes else None


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "resource": advice.resource,
        "reserved": advice.reserved,
        "advised": advice.advised,
        "refusal": advice.refusal,
        "readings": advice.readings,
        "window_s": advice.window_s,
    }


def _sandbox(one: Sandbox) -> dict[str, Any]:
    allocation = one.allocation
    return {
        "sandbox_id": one.sandbox_id,
        "request_id": one.request_id,
        "scope": one.scope,
        "server": one.server,
        "service": one.service,
        "creation": one.creation,
        "error_type": one.error_type,
        "gpu_type": None if one.requested is None else one.requested.gpu_type,
        "sidecars": [{"name": each.name, "requested": _amounts(each.resources)} for each in one.sidecars],
        "components": [
            {"name": each.name or None, "requests": _amounts(each.requests), "limits": _amounts(each.limits)}
            for each in (allocation.components if allocation is not None else ())
        ],
        "allocation_source": one.allocation_source,
        "allocation_error": one.unallocated,
        "allocation_notes": list(allocation.notes) if allocation is not None else [],
        "effective_interval_s": one.interval_s,
        "end": one.end,
        "oom_killed": one.oom_killed,
        "oom_kills": one.oom_kills,
        "leaked": one.leaked,
        "resets": one.resets,
    }


def _amounts(amounts: SandboxResourceAmounts) -> dict[str, Any]:
    return {str(resource): value for resource in Resource if (value := getattr(amounts, resource)) is not None}


def _finding(finding: Finding) -> dict[str, Any]:
    one = finding.sandbox
    return {
        "finding": finding.kind,
        "headline": HEADLINES[finding.kind],
        "run_id": one.run_id,
        "rollout_id": one.rollout_id,
        "trace_id": one.trace_id,
        "request_id": one.request_id,
        "sandbox_id": one.sandbox_id,
        "provider": one.provider,
        "evidence": finding.evidence,
        "cure": finding.cure,
    }
