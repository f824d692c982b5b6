"""The reference names every key with its default, and no other."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from sandgauge_poller.config import Config, Deployment, Usage, load_config
from sandgauge_poller.config.explain import known_keys

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")
PAIRS = re.findall(r"^\| `([a-z_.\[\]]+)` \| (?:`([^`]*)`|required) \| .+ \|$", PAGE, re.MULTILINE)
ROWS = dict(PAIRS)


def model_keys(path: tuple[str | int, ...] = (), shown: str = "") -> list[str]:
    keys = []
    for key in known_keys(path):
        name = f"{shown}.{key}" if shown else key
        inner = (*path, key)
        if known_keys(inner):
            is_list = path == () and bool(get_args(Config.model_fields[key].annotation))
            keys += model_keys(inner, f"{name}[]" if is_list else name)
        else:
            keys.append(name)
    return keys


def nested(rows: dict[str, str]) -> dict:
    result: dict = {}
    for key, default in rows.items():
        *sections, last = key.split(".")
        section = result
        for name in sections:
            section = section.setdefault(name, {})
        section[last] = yaml.safe_load(default) if default in {"[]", "{}", '""'} else default
    return result


def test_every_key_stands_in_the_reference() -> None:
    assert sorted(key for key, _ in PAIRS) == sorted(model_keys())


def test_defaults_of_the_reference_are_those_of_the_model() -> None:
    rows = nested({key: default for key, default in ROWS.items() if "[]" not in key})
    assert Config.model_validate(rows) == Config()
    assert set(rows) | {"deployments", "usage"} == set(Config.model_fields)


@pytest.mark.parametrize(
    ("name", "entry", "needed"),
    [
        ("deployments", Deployment, {"name": "a", "endpoint": "http://a"}),
        ("usage", Usage, {"kind": "docker"}),
    ],
)
def test_defaults_of_an_entry_in_the_reference_are_those_of_the_model(name, entry, needed) -> None:
    own = {key.removeprefix(f"{name}[]."): default for key, default in ROWS.items() if key.startswith(f"{name}[]")}
    assert [key for key, default in own.items() if not default] == list(needed)
    assert entry.model_validate({**nested(own), **needed}) == entry(**needed)


def test_examples_of_the_reference_load(tmp_path: Path) -> None:
    examples = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert examples
    for example in examples:
        path = tmp_path / "sandgauge.yaml"
        path.write_text(example, encoding="utf-8")
        load_config(path, {})
