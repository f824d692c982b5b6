"""The rows of a report as CSV: one line each, empty where nothing is known."""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from sandgauge_report.findings import FindingKind
from sandgauge_report.grouping import Row, Side
from sandgauge_report.merging.sandboxes import Creation
from sandgauge_report.rendering.report import Report
from sandgauge_schemas.names import Resource

_KINDS = list(map(str, FindingKind))
_SAMPLED = (Resource.CPU, Resource.MEMORY_MIB)
_AMOUNTS = (Resource.CPU, Resource.MEMORY_MIB, Resource.DISK_GIB, Resource.GPU)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001  # some spreadsheets take both widths


def write_csv(report: Report, file: TextIO) -> None:
    """Write a heading and a line for each row, as each is made."""
    kinds: defaultdict[int, list[str]] = defaultdict(list)
    for finding in report.findings:
        kinds[id(finding.sandbox)].append(str(finding.kind))
    writer = csv.writer(file, lineterminator="\n")
    for index, row in enumerate(report.rows):
        cells = dict(_cells(row, _findings_of(row, kinds)))
        if index == 0:
            writer.writerow(cells)
        writer.writerow(cells.values())


def _findings_of(row: Row, kinds: Mapping[int, list[str]]) -> list[str]:
    """Return the findings of a row's sandboxes, kind by kind."""
    found = [kind for one in row.sandboxes for kind in kinds.get(id(one), ())]
    return sorted(found, key=_KINDS.index)


def _cells(row: Row, findings: list[str]) -> Iterator[tuple[str, Any]]:
    only = row.only
    yield "run_id", _text(row.run_id)
    yield "task", _text(row.task)
    yield "rollout_id", _text(row.rollout_id)
    yield "trace_id", _text(row.trace_id)
    yield "provider", _text(row.provider)
    yield "sandbox_id", _text(only.sandbox_id if only is not None else None)
    yield "created", row.creations[Creation.CREATED]
    yield "not_created", row.creations[Creation.FAILED] + row.creations[Creation.NO_START]
    yield "pending", row.creations[Creation.PENDING]
    for side in Side:
        for resource in _AMOUNTS:
            total = row.total(side, resource)
            yield f"{side}_{resource}", None if total is None else total.sum
    for resource in _SAMPLED:
        series = row.preferred(resource)
        name = "cpu" if resource is Resource.CPU else "memory"
        yield f"{name}_quantity", None if series is None else series.key.quantity
        yield f"{name}_source", None if series is None else _text(series.key.source)
        yield f"{name}_scope", None if series is None else series.key.scope
        for statistic in ("readings", "min", "mean", "p95", "max"):
            yield f"{name}_{statistic}", None if series is None else getattr(series, statistic)
        yield f"{name}_share_of_limit", None if series is None else row.share_of_limit(series.key)
    yield "readings", row.readings
    yield "missed", row.missed
    yield "lifetime_s", sum(row.lifetimes_s) if row.lifetimes_s else None
    yield "ends", _text(" ".join(sorted(f"{end or 'unknown'}={count}" for end, count in row.ends.items())))
    yield "findings", " ".join(findings)


def _text(value: str | None) -> str | None:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{value}" if value is not None and value.startswith(_FORMULA) else value
