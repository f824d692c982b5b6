"""The shipped dashboards and alert rules as tests see them: panels, and each PromQL expression with its place."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.build_cache import REPOSITORY

BACKENDS = REPOSITORY / "collector-config" / "backends"
GRAFANA = BACKENDS / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
RULES = BACKENDS / "prometheus-rules" / "sandgauge.rules.yml"

EVERYTHING = ".*"
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")
_RANGES = {"$__rate_interval": "1m", "$__range": "1h", "$lookback": "6h"}


@dataclass(frozen=True, slots=True)
class Expression:
    """PromQL as it was written, and its place: `Fleet / Leaks / A`, `alert SandgaugePollerDown`.

    `row` is the label that puts a series into a row of its table.
    """

    place: str
    promql: str
    row: str | None = None


def load(dashboard: Path) -> dict[str, Any]:
    """Return a dashboard's JSON."""
    return dict(json.loads(dashboard.read_text()))


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each panel of each dashboard with its place."""
    for path in DASHBOARDS:
        dashboard = load(path)
        for panel in dashboard["panels"]:
            yield f"{dashboard['title']} / {panel['title']}", panel


def panel_expressions() -> Iterator[Expression]:
    """Yield what each panel asks Prometheus."""
    for place, panel in panels():
        joins = [one["options"]["byField"] for one in panel.get("transformations", ()) if one["id"] == "joinByField"]
        for target in panel["targets"]:
            if "expr" in target:
                yield Expression(f"{place} / {target['refId']}", target["expr"], *joins)


def trace_searches() -> Iterator[tuple[str, str, str]]:
    """Yield the place, the service and the tags in logfmt of what each panel asks Jaeger."""
    for place, panel in panels():
        for target in panel["targets"]:
            if "tags" in target:
                yield place, target["service"], target["tags"]


def variable_expressions() -> Iterator[Expression]:
    """Yield the values of each variable: as many series as it has values."""
    for path in DASHBOARDS:
        dashboard = load(path)
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                asked = _LABEL_VALUES.fullmatch(variable["query"]["query"])
                assert asked is not None, variable["query"]
                values = f"count by ({asked['label']}) ({asked['selector']})"
                yield Expression(f"{dashboard['title']} / ${variable['name']}", values)


def alert_expressions() -> Iterator[Expression]:
    """Yield the condition of each alert."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield Expression(f"alert {rule['alert']}", rule["expr"])


def filled_in(promql: str, values: Mapping[str, str]) -> str:
    """Put values in the place of Grafana's own variables and of the dashboard's `values`."""
    named = {f"${name}": value for name, value in values.items()}
    for name, value in {**_RANGES, **named}.items():
        promql = re.sub(rf"{re.escape(name)}\b", value.replace("\\", r"\\"), promql)
    return promql
