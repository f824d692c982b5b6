"""The shipped manifests as Kustomize makes them, and what a test asks of them."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.build_cache import REPOSITORY
from support.kustomize import build

Object = dict[str, Any]

ROOT = REPOSITORY / "collector-config"
KUBERNETES = ROOT / "kubernetes"
RIGHTS = tuple(yaml.safe_load_all((KUBERNETES / "rbac.yaml").read_text()))
_HASH = re.compile(r"-[0-9a-z]{10}")


def kustomization(folder: Path, *components: str, **fields: Any) -> Path:
    """Write a user's kustomization of the shipped base and components into a folder, and return the folder.

    `fields` are added to it, or take the place of these.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shipped = Path(os.path.relpath(ROOT, folder.resolve()))
    content = {
        "resources": [str(shipped)],
        "components": [str(shipped / "kubernetes" / component) for component in components],
        **fields,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return folder


@dataclass(frozen=True, slots=True)
class Manifests:
    """All objects that are applied together."""

    objects: Sequence[Object]

    @classmethod
    def of(cls, folder: Path) -> "Manifests":
        return cls(build(folder))

    def of_kind(self, kind: str) -> dict[str, Object]:
        return {found["metadata"]["name"]: found for found in self.objects if found["kind"] == kind}

    def workload(self, name: str) -> Object:
        return self.of_kind("StatefulSet")[name]

    def pods(self) -> Mapping[str, Object]:
        """Return the template of each workload's pods, by the workload's name."""
        return {name: found["spec"]["template"] for name, found in self.of_kind("StatefulSet").items()}

    def containers(self) -> Iterator[tuple[str, Object]]:
        """Yield each container with its workload's name."""
        for name, pod in self.pods().items():
            for section in ("initContainers", "containers"):
                yield from ((name, container) for container in pod["spec"].get(section, []))

    def container(self, workload: str) -> Object:
        (found,) = [container for name, container in self.containers() if name == workload]
        return found

    def config_map(self, name: str) -> dict[str, str]:
        """Return the data of a generated map, found by its name before the hash."""
        (found,) = [
            data["data"] for full, data in self.of_kind("ConfigMap").items() if _HASH.fullmatch(full.removeprefix(name))
        ]
        return found

    def mounted_files(self, workload: str) -> dict[str, str]:
        """Return the text of each file that a workload's container finds through config maps, by its path."""
        volumes = {volume["name"]: volume for volume in self.pods()[workload]["spec"]["volumes"]}
        maps = self.of_kind("ConfigMap")
        return {
            f"{mount['mountPath']}/{key}": text
            for mount in self.container(workload)["volumeMounts"]
            if "configMap" in (volume := volumes.get(mount["name"], {}))
            for key, text in maps[volume["configMap"]["name"]]["data"].items()
        }

    def environment(self, workload: str, secrets: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a workload's first container; `secrets` has what the Secret holds, by its key."""
        container = self.container(workload)
        maps = self.of_kind("ConfigMap")
        variables = {}
        for source in container.get("envFrom", []):
            variables |= maps[source["configMapRef"]["name"]]["data"]
        for entry in container.get("env", []):
            match entry.get("valueFrom"):
                case None:
                    variables[entry["name"]] = entry["value"]
                case {"secretKeyRef": {"key": key}}:
                    variables[entry["name"]] = secrets[key]
                case {"fieldRef": {"fieldPath": "metadata.name"}}:
                    variables[entry["name"]] = f"{workload}-0"
        return variables


def config_files(collector: Object) -> list[str]:
    """Return the files that a Collector's arguments name, in their order."""
    return [argument.removeprefix("--config=") for argument in collector["args"]]


def ports(container: Object) -> dict[str, int]:
    """Return the ports of a container by their names."""
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def probes(container: Object) -> dict[str, Object]:
    """Return the probes of a container by their kinds."""
    return {kind: container[kind] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}


def selects(selector: Mapping[str, str], pod: Object) -> bool:
    """Whether the labels of a selector are among those of a pod."""
    return selector.items() <= pod["metadata"]["labels"].items()
