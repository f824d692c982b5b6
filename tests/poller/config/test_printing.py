"""The printed configuration is the one in force: it loads as the same, and shows no secret."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandgauge_poller.config import Config, as_yaml, format_duration, load_config
from sandgauge_poller.config.units import (
    LARGEST_SIZE,
    LONGEST_DURATION_S,
    format_size,
    parse_duration,
    parse_size,
)

CONFIGS = Path(__file__).parents[2] / "fixtures" / "config"
GOOD = sorted(CONFIGS.glob("good_*.yaml"))
ENVIRONMENT = {"OPENSANDBOX_API_KEY": "k3y", "INGEST_TOKEN": "t0ken"}
SECRET = "hunter2hunter2"


def loaded(directory, text):
    path = directory / "sandgauge.yaml"
    path.write_text(text)
    return load_config(path, ENVIRONMENT)


@pytest.mark.parametrize("path", GOOD, ids=[path.stem for path in GOOD])
def test_it_loads_as_the_same(path, tmp_path):
    config = load_config(path, ENVIRONMENT)
    again = loaded(tmp_path, as_yaml(config))
    assert again.model_dump(mode="json") == config.model_dump(mode="json")
    assert as_yaml(again) == as_yaml(config)


def test_every_key_is_there():
    printed = yaml.safe_load(as_yaml(Config()))

    def keys(model, value):
        assert list(value) == list(model.model_fields)
        for name, field in model.model_fields.items():
            if isinstance(value[name], dict) and hasattr(field.annotation, "model_fields"):
                keys(field.annotation, value[name])

    keys(Config, printed)


def test_secrets_are_masked_and_none_is_told_from_one(tmp_path):
    text = (
        f"ingest: {{auth: {{bearer_token: {SECRET}}}}}\n"
        f"deployments: [{{name: a, endpoint: http://a, api_key: {SECRET}}}, {{name: b, endpoint: http://b}}]\n"
        f"export: {{headers: {{authorization: {SECRET}}}}}\n"
    )
    printed = as_yaml(loaded(tmp_path, text))
    assert SECRET not in printed
    shown = yaml.safe_load(printed)
    assert shown["ingest"]["auth"]["bearer_token"] == shown["export"]["headers"]["authorization"] == "***"
    assert [deployment["api_key"] for deployment in shown["deployments"]] == ["***", ""]
    assert shown["status"]["auth"]["bearer_token"] == ""


def test_values_are_written_as_people_write_them(tmp_path):
    text = (
        "sampling: {collection_interval: 90500ms}\n"
        "export: {sending_queue: {max_size: 3000MiB}}\n"
        "state: {directory: 'a$$b'}\n"
    )
    shown = yaml.safe_load(as_yaml(loaded(tmp_path, text)))
    assert shown["sampling"]["collection_interval"] == "1m30.5s"
    assert shown["export"]["sending_queue"]["max_size"] == "3000MiB"
    assert shown["state"]["directory"] == "a$$b"
    assert shown["ingest"]["endpoint"] == "127.0.0.1:4319"


@given(st.integers(0, LONGEST_DURATION_S * 1000))
def test_any_duration_is_read_as_it_was_written(milliseconds):
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-9)


@given(st.integers(1, LARGEST_SIZE))
def test_any_size_is_read_as_it_was_written(size):
    assert parse_size(format_size(size)) == size
