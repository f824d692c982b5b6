"""Each expression of each dashboard and alert, asked of the stack's own Prometheus while the demo runs."""

import re

import pytest

from support.dashboard_answers import choices, unanswered
from support.dashboards import (
    alert_expressions,
    filled_in,
    panel_expressions,
    trace_searches,
    variable_expressions,
)
from support.promql import Selector, selectors

pytestmark = pytest.mark.integration

NO_LOSS = "the Collector counts losses from the first one on, and loses nothing here"
NO_TROUBLE = "the poller counts them from the first one on; clocks and spans of the demo are in order"
IS_WELL = "its condition does not hold; its series are asked for one by one instead"

EMPTY = {
    "Sandgauge itself / Lost in the Collector, a second / A": NO_LOSS,
    "Sandgauge itself / Lost in the Collector, a second / B": NO_LOSS,
    "Sandgauge itself / Lost in the Collector, a second / C": NO_LOSS,
    "Sandgauge itself / Lost in the Collector, a second / D": NO_LOSS,
    "Sandgauge itself / Points left out or restamped, a second / A": NO_TROUBLE,
    "Sandgauge itself / Points left out or restamped, a second / B": NO_TROUBLE,
    "Sandgauge itself / Points left out or restamped, a second / C": NO_TROUBLE,
    "alert SandgaugePollerDown": IS_WELL,
    "alert SandgaugeCollectorDown": IS_WELL,
    "alert SandgaugeFeedQueueHalfFull": IS_WELL,
    "alert SandgaugeReadingsMissed": IS_WELL,
    "alert SandgaugeIntervalStretched": IS_WELL,
}
"""What may be empty while the demo runs, and why."""

TIMEOUT_S = 240


def test_every_expression_returns_data_or_has_a_reason_to_be_empty(demo_stack):
    expressions = [*panel_expressions(), *variable_expressions(), *alert_expressions()]
    places = {one.place for one in expressions}
    assert EMPTY.keys() <= places
    needed = [one for one in expressions if one.place not in EMPTY]
    assert unanswered(demo_stack.query, needed, timeout_s=TIMEOUT_S) == set()


def test_the_series_of_every_alert_are_there(demo_stack):
    for alert in alert_expressions():
        for selector in selectors(alert.promql):
            assert demo_stack.query(written(selector)), f"{alert.place}: {selector}"


def test_traces_are_found_by_the_tags_that_panels_search_for(demo_stack):
    for place, service, tags in trace_searches():
        filled = (filled_in(tags, choice) for choice in choices(demo_stack.query))
        asked = (dict(re.findall(r'([\w.]+)="([^"]*)"', one)) for one in filled)
        assert any(demo_stack.traces(service, **one) for one in asked), place


def written(selector: Selector) -> str:
    """Return PromQL for the series that an alert asks for, without the matchers that hold only in trouble."""
    named = {label: value for label, value in selector.matchers.items() if label in {"job", "kind"}}
    return f"{selector.metric}{{{','.join(f'{label}={value!r}' for label, value in named.items())}}}"
