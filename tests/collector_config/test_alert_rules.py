"""The alert rules read as data: what each must tell whoever it wakes."""

import re

import pytest
import yaml

from support.dashboards import RULES, panels
from support.documents import document, section

ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
TITLES = {panel["title"] for _, panel in panels()}


def test_they_are_the_ones_that_the_stack_promises():
    assert [alert["alert"] for alert in ALERTS] == [
        "SandgaugePollerDown",
        "SandgaugeCollectorDown",
        "SandgaugeFeedQueueHalfFull",
        "SandgaugeLeaks",
        "SandgaugeReadingsMissed",
        "SandgaugeNodeScopedReadings",
        "SandgaugeIntervalStretched",
    ]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_happened_what_it_means_and_what_to_do(alert):
    assert alert["annotations"].keys() == {"summary", "description", "action"}
    assert all(text.endswith(".") for text in alert["annotations"].values())
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["for"]  # one scrape that went wrong wakes nobody
    assert set(re.findall(r'panel "([^"]+)"', alert["annotations"]["action"])) <= TITLES


def test_they_are_all_documented_and_no_others():
    assert set(re.findall(r"`(Sandgauge\w+)`", section(document("dashboards.md"), "Alerts"))) == {
        alert["alert"] for alert in ALERTS
    }
