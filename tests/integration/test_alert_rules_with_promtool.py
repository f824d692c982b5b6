"""Alert rules and every expression of the dashboards, by Prometheus' own tool."""

import json
import re

import pytest
import yaml

from support.build_cache import REPOSITORY
from support.dashboards import EVERYTHING, RULES, filled_in, panel_expressions, variable_expressions
from support.promtool import promtool

pytestmark = pytest.mark.integration

STORIES = REPOSITORY / "tests" / "fixtures" / "alerts" / "sandgauge.test.yml"
ALERTS = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_the_rules_are_without_complaint():
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert checked.returncode == 0, checked.stderr


def test_each_alert_fires_when_it_should_and_then_alone():
    tested = promtool("test", "rules", STORIES)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_that_never_fires_would_be_found(alert, tmp_path):
    rules = yaml.safe_load(RULES.read_text())
    for rule in rules["groups"][0]["rules"]:
        if rule["alert"] == alert:
            rule["expr"] = "vector(1) > 2"
    (tmp_path / "rules.yml").write_text(json.dumps(rules))
    (tmp_path / "stories.yml").write_text(re.sub(r"rule_files: .*", "rule_files: [rules.yml]", STORIES.read_text()))
    tested = promtool("test", "rules", tmp_path / "stories.yml")
    assert tested.returncode != 0
    assert alert in tested.stdout + tested.stderr


def test_every_expression_of_a_dashboard_parses(tmp_path):
    """As recording rules, all at once: the tool takes one expression at a time otherwise."""
    values = dict.fromkeys(("deployment", "run", "rollout", "sandbox"), EVERYTHING)
    expressions = [*panel_expressions(), *variable_expressions()]
    rules = [
        {"record": f"of:panel{number}", "expr": filled_in(one.promql, values)} for number, one in enumerate(expressions)
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    checked = promtool("check", "rules", tmp_path / "rules.yml")
    assert checked.returncode == 0, checked.stderr
    assert f"{len(expressions)} rules found" in checked.stdout
