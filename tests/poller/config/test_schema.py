"""The JSON Schema and the example of the configuration: made from model and reference, and right about real files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from sandgauge_poller.config import Config, ConfigErrors, load_config
from sandgauge_poller.config.explain import known_keys

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "tests" / "fixtures" / "config"
EXAMPLE = (ROOT / "docs" / "sandgauge.example.yaml").read_text(encoding="utf-8")
SCHEMA = json.loads((ROOT / "docs" / "sandgauge.schema.json").read_text(encoding="utf-8"))
# Every switched-off key switched on: its `#` touches it.
SWITCHED_ON = re.sub(r"(?m)^#(?=\S|  +[-a-z])", "", EXAMPLE.partition("\n\n")[2])


def faults(data):
    found = jsonschema.Draft202012Validator(SCHEMA).iter_errors(data)
    return [".".join(map(str, fault.absolute_path)) for fault in found]


def keys(data, path=()):
    """Return all keys of a file as paths without places in lists."""
    if isinstance(data, list) and data:
        return {key for entry in data for key in keys(entry, path)}
    if not isinstance(data, dict) or path[-1:] == ("headers",):
        return {path}
    return {key for name, value in data.items() for key in keys(value, (*path, name))}


def model_keys(path=()):
    inner = known_keys(path)
    return {key for name in inner for key in model_keys((*path, name))} if inner else {path}


def schema_keys(node, path=()):
    node = node.get("items", node)
    if "properties" not in node:
        return {path}
    return {key for name, inner in node["properties"].items() for key in schema_keys(inner, (*path, name))}


def test_both_files_are_what_the_model_and_the_reference_make():
    answer = subprocess.run(
        [sys.executable, ROOT / "poller" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_the_schema_is_one_and_has_every_key_with_its_meaning():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert schema_keys(SCHEMA) == model_keys()
    leaves = re.findall(r'"description": "[^"]', json.dumps(SCHEMA))
    assert len(leaves) == len(model_keys())


def test_every_key_is_in_the_example():
    assert keys(yaml.safe_load(SWITCHED_ON)) == model_keys()


@pytest.mark.parametrize("text", [EXAMPLE, SWITCHED_ON], ids=["as it is", "all switched on"])
def test_the_example_fits_schema_and_model(tmp_path, text):
    assert faults(yaml.safe_load(text)) == []
    path = tmp_path / "sandgauge.yaml"
    path.write_text(text, encoding="utf-8")
    assert load_config(path, {}).deployments[0].name == "training"


def test_the_example_is_the_defaults_beside_its_deployment(tmp_path):
    path = tmp_path / "sandgauge.yaml"
    path.write_text(EXAMPLE, encoding="utf-8")
    assert load_config(path, {}).model_copy(update={"deployments": ()}) == Config()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("good_*.yaml")), ids=lambda path: path.stem)
def test_the_schema_takes_good_files(path):
    assert faults(yaml.safe_load(path.read_bytes())) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("sampling: {colection_interval: 10s}", "sampling"),
        ("sampling: {collection_interval: 10}", "sampling.collection_interval"),
        ("allocation: {timeout: 0}", "allocation.timeout"),
        ("export: {sending_queue: {max_size: 256}}", "export.sending_queue.max_size"),
        ("export: {compression: zip}", "export.compression"),
        ("export: {traces: perhaps}", "export.traces"),
        ("deployments: [{name: training}]", "deployments.0"),
        (
            "deployments: [{name: a, endpoint: 'http://a', use_server_proxy: sometimes}]",
            "deployments.0.use_server_proxy",
        ),
        (
            "deployments: [{name: a, endpoint: 'http://a', max_concurrent_proxied_reads: 0}]",
            "deployments.0.max_concurrent",
        ),
        ("usage: [{endpoint: 'unix:///var/run/docker.sock'}]", "usage.0"),
        ("logs: {level: loud}", "logs.level"),
    ],
)
def test_the_schema_names_what_the_model_refuses_too(tmp_path, text, place):
    (fault,) = faults(yaml.safe_load(text))
    assert fault.startswith(place)
    path = tmp_path / "sandgauge.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigErrors, match=re.escape(place.partition(".")[0])):
        load_config(path, {})


@pytest.mark.parametrize(
    "text",
    [
        "sampling: {collection_interval: '${env:INTERVAL:-10s}'}",
        "sampling: {collection_interval: 0}",
        "sampling: {initial_delay: 1m30.5s}",
        "export: {traces: '${env:TRACES:-true}'}",
        "deployments: [{name: a, endpoint: 'http://a', use_server_proxy: true}]",
        "deployments:\nlogs:\nusage:",
    ],
)
def test_the_schema_takes_what_the_model_takes(tmp_path, text):
    assert faults(yaml.safe_load(text)) == []
    path = tmp_path / "sandgauge.yaml"
    path.write_text(text, encoding="utf-8")
    load_config(path, {})
