"""The dashboards read as data: what each panel must say, and that all they refer to is there."""

import re
import subprocess
import sys
from collections import Counter
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

from sandgauge_schemas import names
from support.dashboards import (
    DASHBOARDS,
    GRAFANA,
    alert_expressions,
    load,
    panel_expressions,
    panels,
    variable_expressions,
)
from support.promql import grouping_labels, selectors
from support.telemetry_in_prometheus import known_metrics, prometheus_name

ALL = [load(path) for path in DASHBOARDS]
PANELS = [pytest.param(panel, id=place) for place, panel in panels()]
EXPRESSIONS = [*panel_expressions(), *variable_expressions(), *alert_expressions()]
each_expression = pytest.mark.parametrize("promql", [pytest.param(one.promql, id=one.place) for one in EXPRESSIONS])
each_dashboard = pytest.mark.parametrize("dashboard", [pytest.param(one, id=one["title"]) for one in ALL])

READINGS = {"gym_sandbox_memory_used_mib", "gym_sandbox_cpu_used_percentage"}
LIMITS = {
    metric
    for metric in known_metrics()
    if re.fullmatch(r"gym_sandbox_(requested|submitted_limits|allocation_limits)_\w+", metric)
}
OF_GRAFANA = {"__from", "__to", "__range", "__rate_interval", "__value", "__data", "__url_time_range", "__all"}


def variables(dashboard):
    return {variable["name"] for variable in dashboard["templating"]["list"]}


def test_they_are_what_their_source_generates():
    checked = subprocess.run(
        [sys.executable, GRAFANA / "source" / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_the_four_are_there_under_names_of_their_own():
    assert sorted(dashboard["title"] for dashboard in ALL) == ["Fleet", "Rollout", "Sandbox", "Sandgauge itself"]
    assert len({dashboard["uid"] for dashboard in ALL}) == len(ALL)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_in_which_unit_and_why_it_can_be_empty(panel):
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"]
    assert len(panel["description"]) > len(panel["title"])
    assert panel["description"].endswith(".")
    assert defaults["noValue"]
    if panel["type"] != "stat":  # there is room for a sentence
        assert defaults["noValue"].endswith(".") or defaults["noValue"].endswith("?")


@each_dashboard
def test_panels_fill_the_grid_without_overlap(dashboard):
    cells = Counter(
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    )
    assert set(cells.values()) == {1}
    assert {x for x, _ in cells} == set(range(24))
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert len({panel["title"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@each_dashboard
def test_every_variable_is_used_and_every_used_one_is_there(dashboard):
    rest = {**dashboard, "templating": None}
    asked = [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    used = set(re.findall(r"\$\{?(\w+)", f"{rest}{asked}"))
    assert used - OF_GRAFANA == variables(dashboard)


def test_data_sources_are_those_that_are_provisioned():
    provisioned = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "sandgauge.yaml").read_text())
    known = {(source["type"], source["uid"]) for source in provisioned["datasources"]}
    panels_and_targets = [part for _, panel in panels() for part in (panel, *panel["targets"])]
    used = [
        *panels_and_targets,
        *(one for board in ALL for one in board["templating"]["list"] if one["type"] == "query"),
    ]
    assert {(one["datasource"]["type"], one["datasource"]["uid"]) for one in used} == known


def test_links_lead_to_dashboards_and_fill_variables_that_are_there():
    boards = {dashboard["uid"]: variables(dashboard) for dashboard in ALL}
    links = 0
    for place, panel in panels():
        columns = set(panel.get("transformations", [{}])[-1].get("options", {}).get("renameByName", {}).values())
        for override in panel["fieldConfig"]["overrides"]:
            for link in (link for part in override["properties"] if part["id"] == "links" for link in part["value"]):
                links += 1
                target = urlsplit(link["url"])
                filled = {name.removeprefix("var-") for name in parse_qs(target.query) if name.startswith("var-")}
                assert filled <= boards[target.path.removeprefix("/d/")], place
                assert filled, place
                assert set(re.findall(r"__data\.fields\.(\w+)", target.query)) <= columns, place
                assert override["matcher"]["options"] in columns, place
    assert links


def test_traces_are_looked_for_by_tags_of_the_registry_in_the_poller():
    searches = [
        target for _, panel in panels() for target in panel["targets"] if target["datasource"]["type"] == "jaeger"
    ]
    explored = [unquote(link["url"]) for board in ALL for link in board["links"] if link["type"] == "link"]
    assert len(searches) == len(explored) == 2
    for target in searches:
        assert target["service"] == names.SANDGAUGE_POLLER_SERVICE_NAME
        tags = re.findall(r'([\w.]+)="\$(\w+)"', target["tags"])
        assert {tag for tag, _ in tags} <= {names.NEMO_RUN_ID, names.NEMO_GYM_ROLLOUT_ID, names.NEMO_GYM_SANDBOX_ID}
        assert any(target["tags"].replace('"', '\\"') in url for url in explored)


@each_expression
def test_every_metric_and_label_is_one_that_somebody_sends(promql):
    known = known_metrics()
    asked = selectors(promql)
    assert asked
    labels = set()
    for selector in asked:
        if selector.metric is None:
            pattern = re.compile(selector.matchers["__name__"])
            metrics = [metric for metric in known if pattern.fullmatch(metric)]
        else:
            metrics = [selector.metric]
        assert metrics
        for metric in metrics:
            assert metric in known
            assert selector.matchers.keys() - {"__name__"} <= known[metric], metric
            labels |= known[metric]
    assert grouping_labels(promql) <= labels


@each_expression
def test_use_is_compared_with_what_was_given_only_where_it_is_the_sandboxs_own(promql):
    asked = selectors(promql)
    if {selector.metric for selector in asked} & LIMITS:
        for reading in (selector for selector in asked if selector.metric in READINGS):
            assert reading.matchers[prometheus_name(names.NEMO_GYM_SANDBOX_SAMPLE_SCOPE)] == "sandbox"


def test_that_rule_meets_something():
    compared = [
        one.place
        for one in EXPRESSIONS
        if {selector.metric for selector in selectors(one.promql)} & LIMITS
        and {selector.metric for selector in selectors(one.promql)} & READINGS
    ]
    assert "Fleet / Top over-reservers / A" in compared


@pytest.mark.parametrize("panel", PANELS)
def test_legends_and_columns_name_labels_that_the_series_have(panel):
    known = set().union(*known_metrics().values())
    legends = "".join(target.get("legendFormat", "") for target in panel["targets"])
    assert set(re.findall(r"\{\{(\w+)\}\}", legends)) <= known
    for transformation in panel.get("transformations", []):
        if transformation["id"] == "organize":
            fields = transformation["options"]["renameByName"]
            assert {field for field in fields if not field.startswith("Value")} <= known
            values = [field for field in fields if field.startswith("Value")]
            assert len(values) == len(panel["targets"])
