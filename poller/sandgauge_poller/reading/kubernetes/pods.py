"""The pods of a core `PodList`: lives and kills, which the metrics API does not tell. Their specs may hold secrets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandgauge_poller.reading.kubernetes.lists import Page, read_page
from sandgauge_poller.reading.times import read_time

PAGE_SIZE = 500

_MAIN = "sandbox"
_OUT_OF_MEMORY = "OOMKilled"
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


@dataclass(frozen=True, slots=True)
class PodLife:
    """The present life of a pod.

    `pod_started_ns`: when the pod was first seen by its node; `started_ns`: when its main container, or else the pod,
    began its present life; ns since the epoch on the cluster's clock, None where it is not said.
    `main_killed`: whether the main container was killed for memory in this pod's life; None where nothing tells, since
    of several terminations only the last is kept.
    `running`: names of the containers that run, sidecars included.
    """

    pod_started_ns: int | None
    started_ns: int | None
    main_killed: bool | None
    running: frozenset[str]


def parse_pods(body: bytes, wanted: frozenset[str]) -> Page[PodLife] | None:
    """Return what a list says of the wanted pods, or None where it is no such list."""

    def condense(pod: dict[str, Any]) -> tuple[str, PodLife] | None:
        name = _object(pod.get("metadata")).get("name")
        return (name, _read(pod)) if isinstance(name, str) and name in wanted else None

    return read_page(body, "PodList", "spec", condense)


def _read(pod: dict[str, Any]) -> PodLife:
    status = _object(pod.get("status"))
    main = _main(list(_containers(status, "containerStatuses")))
    pod_started_ns = read_time(status.get("startTime"))
    running = _object(_object(main.get("state")).get("running"))
    return PodLife(
        pod_started_ns,
        read_time(running.get("startedAt")) or pod_started_ns,
        _was_killed(main),
        frozenset(
            str(container.get("name"))
            for key in _STATUSES
            for container in _containers(status, key)
            if "running" in _object(container.get("state"))
        ),
    )


def _main(containers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the container named `sandbox`, else the only one, else nothing."""
    named = [container for container in containers if container.get("name") == _MAIN]
    found = named or containers
    return found[0] if len(found) == 1 else {}


def _was_killed(container: dict[str, Any]) -> bool | None:
    restarts = container.get("restartCount")
    ends = [_object(_object(container.get(key)).get("terminated")) for key in ("state", "lastState")]
    known = [end for end in ends if end]
    if any(end.get("reason") == _OUT_OF_MEMORY for end in known):
        return True
    if not isinstance(restarts, int):
        return None
    # A termination of which nothing is kept may have been one.
    return False if restarts <= (1 if ends[1] else 0) else None


def _containers(status: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    listed = status.get(key)
    yield from (item for item in (listed if isinstance(listed, list) else ()) if isinstance(item, dict))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
