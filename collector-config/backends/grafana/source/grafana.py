"""Grafana's dashboard model, as far as the dashboards here use it: plain dictionaries in the shape of its JSON.

Every panel must say what it shows, in which unit, and why it can be empty; so these are arguments, not options.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]

PROMETHEUS: Json = {"type": "prometheus", "uid": "sandgauge-prometheus"}
JAEGER: Json = {"type": "jaeger", "uid": "sandgauge-jaeger"}
"""The data sources of `provisioning/datasources`."""

WIDTH = 24
"""Columns of Grafana's grid."""

_EVERYTHING = ".*"
_MARKER = "\N{EN DASH}"
"""What an empty cell shows: nothing is known, which is not zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """PromQL and the legend of its series; `at_once` asks for the present alone, as tables and single numbers need it."""

    expr: str
    legend: str = "__auto"
    at_once: bool = False

    def target(self, ref_id: str, *, table: bool = False) -> Json:
        """Return the query as a panel's target."""
        return {
            "refId": ref_id,
            "datasource": PROMETHEUS,
            "expr": self.expr,
            "legendFormat": self.legend,
            "instant": self.at_once,
            "range": not self.at_once,
            "format": "table" if table else "time_series",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One query of a table: the column that its value becomes, with its unit."""

    title: str
    expr: str
    unit: str = "short"


def stat(  # noqa: PLR0913 - each is something that every panel must say
    title: str, description: str, expr: str, *, unit: str, empty: str, alarm_above: float | None = None
) -> Json:
    """Return a panel with one number, red above `alarm_above`."""
    defaults: Json = {"unit": unit, "noValue": empty}
    if alarm_above is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": alarm_above}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "type": "stat",
        "title": title,
        "description": description,
        "datasource": PROMETHEUS,
        "targets": [Query(expr=expr, at_once=True).target("A")],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "none" if alarm_above is None else "value",
            "graphMode": "none",
        },
    }


def graph(title: str, description: str, *queries: Query, unit: str, empty: str, stacked: bool = False) -> Json:
    """Return a panel with lines over time. Gaps stay gaps: where nothing was read, nothing is drawn."""
    custom: Json = {"fillOpacity": 10, "spanNulls": False, "showPoints": "auto"}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return {
        "type": "timeseries",
        "title": title,
        "description": description,
        "datasource": PROMETHEUS,
        "targets": [query.target(_ref(number)) for number, query in enumerate(queries)],
        "fieldConfig": {"defaults": {"unit": unit, "noValue": empty, "min": 0, "custom": custom}, "overrides": []},
        "options": {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "showLegend": True,
                "calcs": ["lastNotNull", "max"],
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def table(  # noqa: PLR0913 - each is something that every table must say
    title: str,
    description: str,
    *columns: Column,
    join_by: str,
    names: Json,
    empty: str,
    links: dict[str, Json] | None = None,
) -> Json:
    """Return a table with one row for each value of the label `join_by` and one column for each query.

    `names` are the labels to show and what to call them, in order; other labels and the times are left out. `links` are
    data links by column title.
    """
    values = {f"Value #{_ref(number)}" if len(columns) > 1 else "Value": one for number, one in enumerate(columns)}
    shown = {**names, **{field: column.title for field, column in values.items()}}
    overrides = [_override("byRegexp", _EVERYTHING, noValue=_MARKER)]
    overrides += [_override("byName", column.title, unit=column.unit) for column in values.values()]
    overrides += [_override("byName", column, links=[link]) for column, link in (links or {}).items()]
    return {
        "type": "table",
        "title": title,
        "description": description,
        "datasource": PROMETHEUS,
        "targets": [
            Query(expr=column.expr, legend="", at_once=True).target(_ref(number), table=True)
            for number, column in enumerate(columns)
        ],
        "transformations": [
            {"id": "joinByField", "options": {"byField": join_by, "mode": "outer"}},
            {"id": "filterFieldsByName", "options": {"include": {"names": list(shown)}}},
            {
                "id": "organize",
                "options": {
                    "indexByName": {field: place for place, field in enumerate(shown)},
                    "renameByName": shown,
                },
            },
        ],
        "fieldConfig": {"defaults": {"unit": "short", "noValue": empty}, "overrides": overrides},
        "options": {"showHeader": True, "cellHeight": "sm"},
    }


def last_summary(metric: str, matchers: str) -> str:
    """Return PromQL for a metric of summaries that says how each sandbox ended.

    A sandbox that is found alive after its summary gets a second one, as leaked; that one counts.
    """
    by = "max by (nemo_gym_sandbox_id, nemo_gym_sandbox_end_reason, nemo_gym_sandbox_end_oom_killed, nemo_gym_sandbox_leaked)"
    leaked, other = (
        f'{by} (last_over_time({metric}{{{matchers},nemo_gym_sandbox_leaked="{value}"}}[$__range]))'
        for value in ("true", "false")
    )
    return f"{leaked} or ({other} unless on (nemo_gym_sandbox_id) {leaked})"


def traces(title: str, description: str, tags: str, *, empty: str) -> Json:
    """Return a table of the traces in which a span of the poller has all the `tags`, in the logfmt that Grafana takes.

    The trace id links to the trace itself.
    """
    return {
        "type": "table",
        "title": title,
        "description": description,
        "datasource": JAEGER,
        "targets": [_trace_search(tags)],
        "fieldConfig": {"defaults": {"unit": "none", "noValue": empty}, "overrides": []},
        "options": {"showHeader": True, "cellHeight": "sm"},
    }


def labels_variable(  # noqa: PLR0913 - each is something that a variable must say
    name: str, label: str, description: str, query: str, *, everything: bool = False, several: bool = False
) -> Json:
    """Return a variable whose values are those of a label, in the dashboard's time range.

    `everything` offers all of them at once, series without the label included.
    """
    variable: Json = {
        "type": "query",
        "name": name,
        "label": label,
        "description": description,
        "datasource": PROMETHEUS,
        "query": {"qryType": 1, "query": query, "refId": f"{name}-values"},
        "refresh": 2,
        "sort": 8,
        "includeAll": everything,
        "multi": several,
    }
    if everything:
        variable["allValue"] = _EVERYTHING
        variable["current"] = {"text": "All", "value": "$__all"}
    return variable


def choice_variable(name: str, label: str, description: str, values: list[str], chosen: str) -> Json:
    """Return a variable with fixed values."""
    return {
        "type": "custom",
        "name": name,
        "label": label,
        "description": description,
        "query": ",".join(values),
        "current": {"text": chosen, "value": chosen},
        "options": [{"text": value, "value": value, "selected": value == chosen} for value in values],
        "includeAll": False,
        "multi": False,
    }


def dashboard_link(title: str, uid: str, parameters: str) -> Json:
    """Return a data link from a cell to another dashboard, over the same time."""
    return {"title": title, "url": f"/d/{uid}?{parameters}&${{__url_time_range}}"}


def explore_link(title: str, tags: str) -> Json:
    """Return a link from a whole dashboard to the traces with these tags, in Grafana's own view of Jaeger."""
    pane = {
        "datasource": JAEGER["uid"],
        "queries": [_trace_search(tags)],
        "range": {"from": "${__from}", "to": "${__to}"},
    }
    panes = quote(json.dumps({"traces": pane}, separators=(",", ":")), safe="${}:_")
    return {**_LINK, "type": "link", "title": title, "url": f"/explore?schemaVersion=1&orgId=1&panes={panes}"}


def dashboard(
    uid: str,
    title: str,
    description: str,
    variables: list[Json],
    *rows: tuple[int, list[Json]],
    links: list[Json] | None = None,
) -> Json:
    """Return a dashboard of rows, each a height in grid units and panels that share the width evenly.

    `links` stand beside the one that leads to the other dashboards.
    """
    panels: list[Json] = []
    top = 0
    for height, row in rows:
        width = WIDTH // len(row)
        for place, panel in enumerate(row):
            position = {"x": place * width, "y": top, "w": width, "h": height}
            panels.append({"id": len(panels) + 1, "gridPos": position, **panel})
        top += height
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["sandgauge"],
        "schemaVersion": 42,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [{**_LINK, "type": "dashboards", "title": "Sandgauge", "tags": ["sandgauge"]}, *(links or [])],
        "templating": {"list": variables},
        "annotations": {"list": []},
        "panels": panels,
    }


_LINK: Json = {
    "asDropdown": False,
    "icon": "external link",
    "includeVars": True,
    "keepTime": True,
    "tags": [],
    "targetBlank": False,
    "tooltip": "",
    "url": "",
}


def _trace_search(tags: str) -> Json:
    return {
        "refId": "A",
        "datasource": JAEGER,
        "queryType": "search",
        "service": "sandgauge-poller",
        "tags": tags,
        "limit": 50,
    }


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _override(matcher: str, options: str, **properties: Any) -> Json:
    listed = [{"id": name, "value": value} for name, value in properties.items()]
    return {"matcher": {"id": matcher, "options": options}, "properties": listed}
