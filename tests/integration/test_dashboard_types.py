"""The dashboards against the types that Grafana itself publishes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.compose_stack import shipped_settings
from support.dashboards import DASHBOARDS, load
from support.grafana_types import complaints, installed, versions

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def packages():
    return installed()


def test_they_have_grafanas_types(packages, tmp_path):
    assert complaints(packages, tmp_path, {path.stem: path.read_text() for path in DASHBOARDS}) == []


def misspell_a_key(dashboard):
    dashboard["timezonee"] = dashboard.pop("timezone")


def misspell_an_option(dashboard):
    panel = next(panel for panel in dashboard["panels"] if panel["type"] == "timeseries")
    panel["options"]["legend"]["showLegnd"] = True


def give_text_for_a_number(dashboard):
    dashboard["panels"][0]["gridPos"]["w"] = "4"


def give_a_word_that_is_none_of_its_list(dashboard):
    panel = next(panel for panel in dashboard["panels"] if panel["type"] == "timeseries")
    panel["options"]["tooltip"]["mode"] = "several"


def take_the_place_away(dashboard):
    del dashboard["panels"][0]["gridPos"]["x"]


SPOILERS: tuple[Callable[[dict[str, Any]], None], ...] = (
    misspell_a_key,
    misspell_an_option,
    give_text_for_a_number,
    give_a_word_that_is_none_of_its_list,
    take_the_place_away,
)


def test_what_has_not_is_found(packages, tmp_path):
    dashboards = {}
    for spoil in SPOILERS:
        dashboard = load(DASHBOARDS[0])
        spoil(dashboard)
        dashboards[spoil.__name__] = json.dumps(dashboard)
    found = {complaint.split(".ts(")[0] for complaint in complaints(packages, tmp_path, dashboards)}
    assert found == dashboards.keys()


def test_the_types_are_of_the_grafana_that_the_stack_runs():
    assert versions()["@grafana/schema"] == shipped_settings()["GRAFANA_VERSION"]
