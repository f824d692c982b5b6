"""One usage source: a Docker daemon that sees the containers of sandboxes."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator

from sandgauge_poller.config.errors import Fault
from sandgauge_poller.config.section import EMPTY_WHEN_NONE, Section, mappings
from sandgauge_poller.config.tls import MutualTls
from sandgauge_poller.config.urls import parse_docker_daemon
from sandgauge_poller.config.values import Name, PositiveDuration


class Usage(Section):
    """One daemon, how often it is asked, and whose sandboxes run there; no deployments named means any."""

    kind: Literal["docker"]
    endpoint: Annotated[str, AfterValidator(parse_docker_daemon)] = "unix:///var/run/docker.sock"
    tls: MutualTls = MutualTls()
    interval: PositiveDuration = 10.0
    timeout: PositiveDuration = 2.0
    deployments: Annotated[tuple[Name, ...], EMPTY_WHEN_NONE] = ()


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
