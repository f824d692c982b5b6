"""Usage of the pods of one cluster: one list for a namespace serves every sandbox in it."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.kubernetes.client import ApiServer
from sandgauge_poller.reading.kubernetes.credentials import Credentials
from sandgauge_poller.reading.kubernetes.designators import pod_of
from sandgauge_poller.reading.kubernetes.lists import Listing, PodLists
from sandgauge_poller.reading.kubernetes.pod_metrics import PodUsage, parse_pod_metrics
from sandgauge_poller.reading.kubernetes.pods import PAGE_SIZE, PodLife, parse_pods
from sandgauge_poller.reading.kubernetes.rights import PodList, explain
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageObservation, UsageTarget
from sandgauge_schemas.names import ErrorType, ResourceSource
from sandgauge_schemas.placement import Identity

logger = logging.getLogger(__name__)

_IN_A_TURN = 20
"""Answers for thousands come at once: as many are given out in a turn of the loop, so that it goes on with all else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """How one cluster is read; times in seconds. `pods`: whether core pods are listed too, for restarts and kills."""

    interval_s: float
    timeout_s: float
    pods: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    """The lists of one namespace, and of which pods which targets are."""

    named: Sequence[tuple[str, UsageTarget]]
    usage: Listing[PodUsage | ErrorType]
    lives: Mapping[str, PodLife]


class KubernetesUsage:
    """The `UsageSource` of one cluster. Construct it in a running loop, and close it in the same."""

    source = ResourceSource.KUBERNETES_METRICS

    def __init__(self, credentials: Credentials, settings: KubernetesSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self._settings = settings
        self._lists = PodLists(ApiServer(credentials, timeout_s=settings.timeout_s, clock=clock), clock)
        self._lives: dict[tuple[str, str], PodLife] = {}

    @property
    def interval_s(self) -> float:
        """Return how far apart its sweeps begin, in seconds."""
        return self._settings.interval_s

    def serves(self, designator: Identity) -> bool:
        """Tell whether it is a pod."""
        return pod_of(designator) is not None

    async def sweep(self, targets: Sequence[UsageTarget]) -> AsyncGenerator[tuple[UsageTarget, UsageAnswer], None]:
        """Yield one answer for each target, namespace by namespace as their lists come."""
        namespaces: dict[str, list[tuple[str, UsageTarget]]] = defaultdict(list)
        for target in targets:
            if pod := pod_of(target.designator):
                namespaces[pod.namespace].append((pod.name, target))
        reads = [asyncio.create_task(self._read(namespace, named)) for namespace, named in namespaces.items()]
        try:
            for read in asyncio.as_completed(reads):
                for number, answered in enumerate(self._answers(await read), start=1):
                    yield answered
                    if number % _IN_A_TURN == 0:
                        await asyncio.sleep(0)
        finally:
            for task in reads:
                task.cancel()
            await asyncio.gather(*reads, return_exceptions=True)

    def kills(self, target: UsageTarget) -> Kills | None:
        """Return whether the main container was killed; only core pods tell, and nobody counts kills of children."""
        life = self._lives.get(_sandbox(target))
        if life is None or life.pod_started_ns is None:
            return None
        return Kills(since_ns=life.pod_started_ns, main_killed=life.main_killed)

    def forget(self, target: UsageTarget) -> None:
        """Let go of the life of its pod."""
        self._lives.pop(_sandbox(target), None)

    async def close(self) -> None:
        """Close the connections."""
        await self._lists.close()

    async def _read(self, namespace: str, named: Sequence[tuple[str, UsageTarget]]) -> _Read:
        wanted = frozenset(pod for pod, _ in named)
        usage, lives = await asyncio.gather(self._list_usage(namespace, wanted), self._list_lives(namespace, wanted))
        return _Read(named, usage, lives)

    def _answers(self, read: _Read) -> Iterator[tuple[UsageTarget, UsageAnswer]]:
        for pod, target in read.named:
            life = read.lives.get(pod) or self._last_life(target)
            if life is not None:
                self._lives[_sandbox(target)] = life
            yield target, self._answer(read.usage, read.usage.pods.get(pod), life)

    def _last_life(self, target: UsageTarget) -> PodLife | None:
        """Return what was told before of its pod, except which containers run: that may have changed."""
        life = self._lives.get(_sandbox(target))
        return None if life is None else replace(life, running=frozenset())

    async def _list_usage(self, namespace: str, wanted: frozenset[str]) -> Listing[PodUsage | ErrorType]:
        listing = await self._lists.fetch(PodList.METRICS.path(namespace), partial(parse_pod_metrics, wanted=wanted))
        _say(PodList.METRICS, namespace, listing)
        return listing

    async def _list_lives(self, namespace: str, wanted: frozenset[str]) -> Mapping[str, PodLife]:
        if not self._settings.pods:
            return {}
        path = PodList.CORE.path(namespace)
        listing = await self._lists.fetch(path, partial(parse_pods, wanted=wanted), page_size=PAGE_SIZE)
        _say(PodList.CORE, namespace, listing)
        return listing.pods

    def _answer(
        self,
        listing: Listing[PodUsage | ErrorType],
        usage: PodUsage | ErrorType | None,
        life: PodLife | None,
    ) -> UsageAnswer:
        outcome = listing.error_type or _usable(usage, life)
        if isinstance(outcome, ErrorType):
            return UsageAnswer(window=listing.window, source=self.source, error_type=outcome)
        return UsageAnswer(window=listing.window, source=self.source, observation=outcome)


def _sandbox(target: UsageTarget) -> tuple[str, str]:
    """Return whose target it is: a sandbox may come to run in another pod, and is let go of once."""
    return target.designator.scope, target.sandbox_id


def _usable(usage: PodUsage | ErrorType | None, life: PodLife | None) -> UsageObservation | ErrorType:
    """Return numbers of the whole pod in its present life, else why there are none: a pod is left out now and then."""
    if usage is None:
        return ErrorType.NO_READING
    if isinstance(usage, ErrorType):
        return usage
    if life is None:
        return usage.observation
    is_of_another_life = life.started_ns is not None and usage.observation.timestamp_ns < life.started_ns
    if is_of_another_life or life.running - usage.containers:
        return ErrorType.NO_READING
    return replace(usage.observation, started_ns=life.started_ns)


def _say(listed: PodList, namespace: str, listing: Listing[Any]) -> None:
    if trouble := explain(listed, namespace, listing):
        logger.warning("usage of kubernetes: %s; %s", *trouble)
