"""The quantities overlay read as data: it spells no name of its own."""

import re

import pytest

from support.telemetry_in_prometheus import quantities
from telemetry_registry import load_registry

REGISTRY = load_registry()
COMPONENT = REGISTRY.attributes["nemo.gym.sandbox.allocation.component"]
OF_SPAN = "gym.sandbox.start.duration"
each_metric = pytest.mark.parametrize("metric", quantities(), ids=lambda metric: metric["name"])


def stated(metric):
    """Return the attribute whose value the metric holds, without the number of a component."""
    attribute = re.fullmatch(r'span\.attributes\["([\w.]+)"\]', metric["gauge"]["value"])[1]
    return attribute.replace("nemo.gym.sandbox.allocation.component.0.", f"{COMPONENT.name}.")


@each_metric
def test_a_metric_is_named_as_the_attribute_that_it_holds(metric):
    if metric["name"] == OF_SPAN:
        return
    attribute = stated(metric)
    if attribute.startswith(f"{COMPONENT.name}."):
        assert attribute.removeprefix(f"{COMPONENT.name}.") in COMPONENT.suffixes
    else:
        assert attribute in REGISTRY.attributes
    assert f"nemo.{metric['name']}" == attribute.replace("allocation.component.", "allocation.")


@each_metric
def test_it_is_taken_from_a_span_of_the_registry_under_labels_that_the_span_has(metric):
    (condition,) = metric["conditions"]
    span = REGISTRY.spans[re.search(r'span\.name == "([\w.]+)"', condition)[1]]
    carried = {usage.attribute.name for usage in span.usages}
    assert {attribute["key"] for attribute in metric["attributes"]} <= carried
    if metric["name"] != OF_SPAN:
        assert stated(metric) in carried or COMPONENT.name in carried
