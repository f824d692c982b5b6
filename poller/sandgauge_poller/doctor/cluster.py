"""A Kubernetes cluster as a usage source: are the credentials usable, and may it list what it has to."""

import asyncio
import sqlite3
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandgauge_poller.config import Usage
from sandgauge_poller.doctor.finding import Finding, failed, passed, warned
from sandgauge_poller.reading.clock import SYSTEM_CLOCK
from sandgauge_poller.reading.kubernetes.access import load_credentials
from sandgauge_poller.reading.kubernetes.client import ApiServer
from sandgauge_poller.reading.kubernetes.credentials import Credentials, CredentialsError
from sandgauge_poller.reading.kubernetes.designators import KIND, pod_of
from sandgauge_poller.reading.kubernetes.lists import Page, PodLists
from sandgauge_poller.reading.kubernetes.pod_metrics import parse_pod_metrics
from sandgauge_poller.reading.kubernetes.pods import parse_pods
from sandgauge_poller.reading.kubernetes.rights import PodList, explain
from sandgauge_poller.tracking import peek
from sandgauge_poller.tracking.migrations import MIGRATIONS
from sandgauge_schemas.placement import Identity

_NOBODY: frozenset[str] = frozenset()
_MOST_NAMESPACES = 20


def examine(usage: Usage, directory: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether each right is there, in the namespaces of known sandboxes, else in that of the credentials."""
    what = "usage source kubernetes"
    try:
        credentials = load_credentials(usage.kubeconfig, usage.context, environ)
    except CredentialsError as error:
        reason, _, cure = str(error).rpartition("; ")
        yield failed(what, reason, cure)
        return
    if credentials.tls is not None and credentials.tls.verify_mode is ssl.CERT_NONE:
        cure = "name its authority in the kubeconfig in place of insecure-skip-tls-verify"
        yield warned(what, "the server's certificate is not checked, so anyone on the way can pose as it", cure)
    wanted = (PodList.METRICS, PodList.CORE) if usage.pods else (PodList.METRICS,)
    asked = _namespaces(directory)[:_MOST_NAMESPACES] or [credentials.namespace]
    for listed, trouble in asyncio.run(_ask(credentials, usage.timeout, wanted, asked)).items():
        if trouble is not None:
            yield failed(what, *trouble)
        else:
            yield passed(what, f"{listed} may be listed in {', '.join(asked)}")


def _namespaces(directory: Path) -> list[str]:
    """Return where sandboxes run, as far as the store tells: that it cannot be read is said of the state folder."""
    try:
        known = peek.version(directory) == len(MIGRATIONS)
        ids = peek.designators(directory, KIND) if known else []
    except (OSError, sqlite3.Error):
        return []
    pods = (pod_of(Identity(KIND, "", id_)) for id_ in ids)
    return sorted({pod.namespace for pod in pods if pod is not None})


async def _ask(
    credentials: Credentials, timeout_s: float, wanted: Sequence[PodList], namespaces: Sequence[str]
) -> dict[PodList, tuple[str, str] | None]:
    """Return for each list the first trouble that there is with it, and its cure."""
    lists = PodLists(ApiServer(credentials, timeout_s=timeout_s, clock=SYSTEM_CLOCK), SYSTEM_CLOCK)
    try:
        return {listed: await _first_trouble(lists, listed, namespaces) for listed in wanted}
    finally:
        await lists.close()


async def _first_trouble(lists: PodLists, listed: PodList, namespaces: Sequence[str]) -> tuple[str, str] | None:
    for namespace in namespaces:
        listing = await lists.probe(listed.path(namespace), lambda body: _PARSERS[listed](body, _NOBODY))
        if trouble := explain(listed, namespace, listing):
            return trouble
    return None


_PARSERS: dict[PodList, Callable[[bytes, frozenset[str]], Page[Any] | None]] = {
    PodList.METRICS: parse_pod_metrics,
    PodList.CORE: parse_pods,
}
