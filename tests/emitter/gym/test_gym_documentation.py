"""The page for Gym's users names what the code heeds."""

import re
from pathlib import Path

import pytest

from sandgauge_emitter.gym import final_reading, switches
from sandgauge_emitter.settings import ENABLED_VARIABLE

PAGE = (Path(__file__).parents[3] / "docs" / "gym.md").read_text()
VARIABLES = {
    *switches._VARIABLES.values(),
    *("NEMO_GYM_OTEL_ENABLED", "NEMO_LENS_ENABLED", switches.CONFIG_VARIABLE, ENABLED_VARIABLE),
    *(final_reading.ENDPOINT_VARIABLE, final_reading.TOKEN_VARIABLE),
}
# Written as endings of the one before.
SHORTENED = {"OTEL_EXPORTER_OTLP_PROTOCOL": "`_PROTOCOL`", "OTEL_EXPORTER_OTLP_HEADERS": "`_HEADERS`"}


@pytest.mark.parametrize("variable", sorted(VARIABLES))
def test_every_variable_is_explained(variable):
    assert SHORTENED.get(variable, f"`{variable}`") in PAGE


@pytest.mark.parametrize("key", [*switches._VARIABLES, "enabled", switches.INTERVAL_KEY])
def test_every_key_of_gyms_configuration_is_explained(key):
    assert f"`{key}`" in PAGE


def test_links_lead_somewhere():
    for file, anchor in re.findall(r"\]\(([\w.]+)(?:#([\w-]+))?\)", PAGE):
        target = (Path(__file__).parents[3] / "docs" / file).read_text()
        headings = {re.sub(r"[^\w -]", "", line.lstrip("# ")).lower().replace(" ", "-") for line in target.splitlines()}
        assert not anchor or anchor in headings
