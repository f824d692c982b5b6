import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandgauge_schemas import names
from telemetry_registry import REGISTRY_DIRECTORY, RegistryError, load_registry, read_groups

ROOT = Path(__file__).parents[2]
GROUPS = read_groups()
NODES = [(group["id"], node) for group in GROUPS for node in group.get("attributes", [])]
DEFINITIONS = [node for _, node in NODES if "id" in node]
REFERENCES = [(group_id, node) for group_id, node in NODES if "ref" in node]
UNITS = {"{cpu}", "%", "MiBy", "s", "By", "{kill}", "{sandbox}", "{read}", "{span}", "{point}", "{item}", "{conflict}"}
"""UCUM: units it knows, and what is counted in braces."""


def members(node: dict[str, Any]) -> list[dict[str, Any]]:
    of_type = node["type"]["members"] if isinstance(node.get("type"), dict) else []
    return [*of_type, *node.get("annotations", {}).get("members", [])]


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "schemas" / "generate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_derived_files_are_fresh() -> None:
    checked = generate(ROOT, "--check")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_changed_registry_makes_both_derived_files_stale_until_they_are_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    changed = tmp_path / "schemas" / "registry" / "sample.yaml"
    changed.write_text(changed.read_text().replace("sample.window_s", "sample.window_length_s"))
    spans = tmp_path / "schemas" / "registry" / "poller_spans.yaml"
    spans.write_text(spans.read_text().replace("sample.window_s", "sample.window_length_s"))

    stale = generate(tmp_path, "--check")
    assert stale.returncode == 1
    assert "names.py is stale" in stale.stderr
    assert "telemetry.md is stale" in stale.stderr

    assert generate(tmp_path).returncode == 0
    assert generate(tmp_path, "--check").returncode == 0
    assert "WINDOW_LENGTH_S" in (tmp_path / "schemas" / "sandgauge_schemas" / "names.py").read_text()


def test_names_import_nothing_but_enum() -> None:
    tree = ast.parse(Path(names.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["from enum import StrEnum"]


def test_each_name_is_spelled_by_one_constant() -> None:
    assignments = [node for node in ast.parse(Path(names.__file__).read_text()).body if isinstance(node, ast.Assign)]
    spelled = [ast.unparse(node.targets[0]) for node in assignments]
    assert len(spelled) == len(set(spelled))


def test_helpers_of_indexed_families_spell_registered_keys() -> None:
    attributes = load_registry().attributes
    component = attributes["nemo.gym.sandbox.allocation.component"]
    sidecar = attributes["nemo.gym.sandbox.requested.sidecar"]
    keys = {
        names.allocation_component_name(3),
        *(f"{names.allocation_component_requests_prefix(3)}.{resource}" for resource in names.Resource),
        *(f"{names.allocation_component_limits_prefix(3)}.{resource}" for resource in names.Resource),
    }
    assert keys == {f"{component.name}.3.{suffix}" for suffix in component.suffixes}
    keys = {
        names.requested_sidecar_name(0),
        *(f"{names.requested_sidecar_prefix(0)}.{resource}" for resource in names.Resource),
    }
    assert keys == {f"{sidecar.name}.0.{suffix}" for suffix in sidecar.suffixes}


def test_ids_are_unique() -> None:
    for ids in ([group["id"] for group in GROUPS], [node["id"] for node in DEFINITIONS]):
        assert sorted(ids) == sorted(set(ids))


def test_every_reference_resolves() -> None:
    defined = {node["id"] for node in DEFINITIONS}
    assert {node["ref"] for _, node in REFERENCES} <= defined
    extended = {group["extends"] for group in GROUPS if "extends" in group}
    assert extended <= {group["id"] for group in GROUPS if group["type"] == "attribute_group"}


def test_a_reference_leaves_type_and_stability_to_the_definition() -> None:
    for group_id, node in REFERENCES:
        assert not node.keys() & {"id", "type", "stability", "deprecated"}, group_id


def test_everything_has_stability_and_a_brief() -> None:
    enum_members = [member for node in DEFINITIONS if isinstance(node["type"], dict) for member in members(node)]
    for item in (*GROUPS, *DEFINITIONS, *enum_members):
        assert item["stability"] == "development", item["id"]
        assert item["brief"].strip().endswith("."), item["id"]


@pytest.mark.parametrize(
    "node", [node for _, node in NODES if members(node)], ids=lambda node: node.get("id") or node["ref"]
)
def test_members_hold_what_weaver_knows_and_no_more(node: dict[str, Any]) -> None:
    for member in members(node):
        assert member.keys() <= {"id", "value", "brief", "stability"}
        assert re.fullmatch(r"[a-z][a-z0-9_]*", member["id"])


def test_names_and_types_are_weavers() -> None:
    for node in DEFINITIONS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*", node["id"])
        simple = {"string", "int", "double", "boolean", "string[]", "template[any]"}
        assert isinstance(node["type"], dict) or node["type"] in simple
        if node["type"] in ("string", "string[]"):
            assert node["examples"], f"{node['id']} needs an example"


def test_units_are_ucum_and_ids_follow_the_names() -> None:
    for group in GROUPS:
        if group["type"] == "metric":
            assert group["unit"] in UNITS
            assert group["instrument"] in {"gauge", "counter", "updowncounter", "histogram"}
            assert group["id"] == f"metric.{group['metric_name']}"
        if group["type"] == "span":
            assert group["span_kind"] == "internal"
            assert group["id"].startswith("span.gym.")


def test_each_family_has_every_word_of_its_vocabulary() -> None:
    registry = load_registry()
    assert registry.families.keys() == registry.vocabularies.keys()
    for vocabulary, prefixes in registry.families.items():
        for prefix in prefixes:
            for word in registry.vocabularies[vocabulary].values:
                assert f"{prefix}.{word}" in registry.attributes


def test_conditions_speak_of_attributes_and_values_that_exist() -> None:
    registry = load_registry()
    for group in (*registry.spans.values(), *registry.metrics.values()):
        usages = {usage.attribute.name: usage for usage in group.usages}
        for usage in group.usages:
            for key, values in (*usage.required_when.items(), *usage.only_when.items()):
                assert set(values) <= set(usages[key].values or ())
    for span in registry.spans.values():
        for together in span.whole_or_absent:
            assert set(together) <= {usage.attribute.name for usage in span.usages}


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        ({"attributes": [{"ref": "nemo.gym.sandbox.nowhere"}]}, "nemo.gym.sandbox.nowhere is defined nowhere"),
        (
            {"attributes": [{"id": "nemo.run.id", "type": "string", "stability": "development", "brief": "Twice."}]},
            "nemo.run.id is defined twice",
        ),
        (
            {"attributes": [{"ref": "kind", "annotations": {"members": [{"id": "a", "value": "a", "brief": "A."}]}}]},
            "kind has members and no enum annotation",
        ),
        (
            {
                "attributes": [
                    {
                        "ref": "kind",
                        "annotations": {"enum": "ReadKind", "members": [{"id": "a", "value": "a", "brief": "A."}]},
                    }
                ]
            },
            "kind gives the enum ReadKind other members than before",
        ),
    ],
)
def test_a_contradictory_registry_is_refused(tmp_path: Path, planted: dict[str, Any], message: str) -> None:
    registry = shutil.copytree(REGISTRY_DIRECTORY, tmp_path / "registry")
    group = {"id": "span.gym.planted", "type": "span", "span_kind": "internal", "brief": "Planted."}
    (registry / "planted.yaml").write_text(yaml.safe_dump({"groups": [group | planted]}))
    with pytest.raises(RegistryError, match=re.escape(message)):
        load_registry(registry)
