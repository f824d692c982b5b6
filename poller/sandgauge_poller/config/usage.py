"""One usage source: a Docker daemon or a cluster, which see sandboxes from outside."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, ValidationInfo, field_validator, model_validator

from sandgauge_poller.config.deployment import Deployment
from sandgauge_poller.config.errors import Fault, InvalidValueError
from sandgauge_poller.config.section import EMPTY_WHEN_NONE, Section, mappings
from sandgauge_poller.config.tls import MutualTls
from sandgauge_poller.config.urls import parse_docker_daemon
from sandgauge_poller.config.values import Name, OptionalKubeconfig, PositiveDuration

_DOCKER, _KUBERNETES = "docker", "kubernetes"
_SLOWER = {"interval": 15.0, "timeout": 5.0}
"""A cluster has nothing newer than 15 s, and answers for a whole namespace at once."""


class Usage(Section):
    """One daemon or cluster, how often it is asked, and whose sandboxes run there; no deployments named means any."""

    kind: Literal["docker", "kubernetes"]
    endpoint: Annotated[str, AfterValidator(parse_docker_daemon)] = "unix:///var/run/docker.sock"
    tls: MutualTls = MutualTls()
    kubeconfig: OptionalKubeconfig = None
    context: str = ""
    pods: bool = False
    interval: PositiveDuration = 10.0
    timeout: PositiveDuration = 2.0
    deployments: Annotated[tuple[Name, ...], EMPTY_WHEN_NONE] = ()

    @model_validator(mode="before")
    @classmethod
    def _slower_with_a_cluster(cls, value: object) -> object:
        return {**_SLOWER, **value} if isinstance(value, dict) and value.get("kind") == _KUBERNETES else value

    @field_validator("endpoint", "tls", "kubeconfig", "context", "pods")
    @classmethod
    def _of_its_kind(cls, value: object, info: ValidationInfo) -> object:
        kind, owner = info.data.get("kind"), _DOCKER if info.field_name in {"endpoint", "tls"} else _KUBERNETES
        if kind not in {None, owner} and value != cls.model_fields[info.field_name or ""].default:
            raise InvalidValueError(f"is of use with kind: {owner} alone", "leave it out")
        return value

    @field_validator("context")
    @classmethod
    def _of_a_kubeconfig(cls, context: str, info: ValidationInfo) -> str:
        if context and info.data.get("kubeconfig", context) is None:
            raise InvalidValueError("names a context of no kubeconfig", "name the file as kubeconfig, or leave it out")
        return context


def with_daemons_of_their_own(
    sources: Sequence[Usage], deployments: Sequence[Deployment], interval: float, timeout: float
) -> tuple[Usage, ...]:
    """Return the sources, and one for each Docker daemon that is a deployment and has none among them.

    Such a daemon sees its own sandboxes, and no other does: a source without names is not asked for them.
    """
    daemons = [source for source in sources if source.kind == _DOCKER]
    named = {name for source in daemons for name in source.deployments}
    endpoints = {source.endpoint for source in daemons if not source.deployments}
    own = {
        deployment.name: Usage(
            kind="docker",
            endpoint=deployment.endpoint,
            tls=deployment.tls,
            interval=interval,
            timeout=timeout,
            deployments=(deployment.name,),
        )
        for deployment in deployments
        if deployment.provider == "docker" and deployment.name not in named and deployment.endpoint not in endpoints
    }
    others = tuple(deployment.name for deployment in deployments if deployment.name not in own)
    narrowed = [
        source if source.deployments or not own else source.model_copy(update={"deployments": others})
        for source in sources
    ]
    return (*(source for source in narrowed if source.deployments or not own), *own.values())


def misplaced(sources: object, deployments: object) -> Iterator[Fault]:
    """Yield a fault for each deployment that a source names and there is not, or that an earlier one of its kind has.

    Both are the file's own entries, those that are switched off included.
    """
    names = [name for _, entry in mappings(deployments) if isinstance(name := entry.get("name"), str)]
    served: dict[object, set[str]] = {}
    for index, entry in mappings(sources):
        listed = entry.get("deployments")
        named = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        for position, name in enumerate(named):
            if name not in names:
                cure = f"write one of: {', '.join(names)}" if names else "name it under deployments first"
                yield Fault(("usage", index, "deployments", position), "names no deployment", cure)
        earlier, own = served.setdefault(str(entry.get("kind")), set()), set(named or names)
        if earlier & own:
            yield Fault(
                ("usage", index, "deployments"),
                "holds a deployment that an earlier source of this kind serves",
                "name under each source the deployments whose sandboxes run there",
            )
        earlier |= own
