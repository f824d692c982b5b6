"""The manifest of rights: no more than the source asks for, and whole."""

import re
from pathlib import Path

import yaml

from sandgauge_poller.reading.kubernetes.rights import PodList

FILE = Path(__file__).parents[2] / "collector-config" / "kubernetes" / "rbac.yaml"
OBJECTS = list(yaml.safe_load_all(FILE.read_text(encoding="utf-8")))
RBAC = "rbac.authorization.k8s.io"


def of_kind(kind: str) -> dict[str, dict]:
    return {found["metadata"]["name"]: found for found in OBJECTS if found["kind"] == kind}


def test_it_holds_an_account_two_roles_and_their_bindings() -> None:
    versions = {"ServiceAccount": "v1", "Role": f"{RBAC}/v1", "RoleBinding": f"{RBAC}/v1"}
    assert [found["kind"] for found in OBJECTS] == ["ServiceAccount", *["Role", "RoleBinding"] * 2]
    assert all(found["apiVersion"] == versions[found["kind"]] for found in OBJECTS)
    assert all(set(found) <= {"apiVersion", "kind", "metadata", "rules", "roleRef", "subjects"} for found in OBJECTS)
    assert all(re.fullmatch("[a-z-]+", name) for found in OBJECTS for name in found["metadata"].values())


def test_each_role_grants_one_list_that_the_source_asks_for_and_nothing_else() -> None:
    rules = {name: role["rules"] for name, role in of_kind("Role").items()}
    assert rules == {
        "sandgauge-usage": [{"apiGroups": [PodList.METRICS.value], "resources": ["pods"], "verbs": ["list"]}],
        "sandgauge-usage-pods": [{"apiGroups": [PodList.CORE.value], "resources": ["pods"], "verbs": ["list"]}],
    }


def test_each_binding_gives_its_role_to_the_account() -> None:
    (account,) = of_kind("ServiceAccount").values()
    roles, bindings = of_kind("Role"), of_kind("RoleBinding")
    assert set(roles) == set(bindings)
    for name, binding in bindings.items():
        assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "Role", "name": name}
        assert binding["metadata"]["namespace"] == roles[name]["metadata"]["namespace"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", **account["metadata"]}]
