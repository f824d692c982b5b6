"""Usage of containers from a Docker daemon: its list for identity, one-shot stats for numbers, events for kills."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.events import EventWatch
from sandgauge_poller.reading.docker.identity import SANDBOX_LABEL, Index, ListedContainer, is_whole_id, parse_list
from sandgauge_poller.reading.docker.stats import parse_stats
from sandgauge_poller.reading.exchange import Answer
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_poller.reading.usage.source import Kills, UsageAnswer, UsageTarget
from sandgauge_schemas.names import DesignatorKind, ErrorType, ResourceSource
from sandgauge_schemas.placement import Identity

logger = logging.getLogger(__name__)

_SOURCE = ResourceSource.DOCKER_STATS

_AT_ONCE = 20
"""Questions under way: with more a sweep is no faster (measured), and the daemon has other work too."""

SAMPLES_DIRECTLY = (24, 0, 7)
"""First release that samples when it is asked. Before it all who ask within a second get one shared answer (measured:
100 at once take 1.2 s, 20 at a time 5.3 s), and one wedged container holds up the others."""

_LARGE_BYTES = 256 * 1024
"""A list beyond this is read in a thread: it would hold up readings for more than some milliseconds."""


class DockerUsage:
    """One daemon as a usage source; sweeps begin `interval_s` seconds apart.

    Construct it in a running loop: it follows the daemon's events from then on.
    """

    def __init__(self, engine: Engine, *, interval_s: float, clock: Clock) -> None:
        self._engine = engine
        self._interval_s = interval_s
        self._clock = clock
        self._watch = EventWatch(engine, clock)
        self._watching = asyncio.create_task(self._watch.run())
        self._containers: dict[UsageTarget, ListedContainer] = {}

    @property
    def source(self) -> ResourceSource:
        """Return what its records name as their source."""
        return _SOURCE

    @property
    def interval_s(self) -> float:
        """Return how far apart its sweeps begin, in seconds."""
        return self._interval_s

    def serves(self, designator: Identity) -> bool:
        """Tell whether it names a container."""
        return designator.kind == DesignatorKind.DOCKER_CONTAINER

    async def sweep(self, targets: Sequence[UsageTarget]) -> AsyncGenerator[tuple[UsageTarget, UsageAnswer], None]:
        """Yield one answer for each target, each as it comes."""
        found = {target: target.designator.id for target in targets if is_whole_id(target.designator.id)}
        shortened = [target for target in targets if target not in found]
        if shortened:
            window, failure = await self._identify(shortened)
            for target in shortened:
                container = self._containers.get(target)
                if failure is None and container is not None and container.is_running:
                    found[target] = container.id
                else:
                    gone = ErrorType.NOT_FOUND if container is None else ErrorType.ENDED
                    yield target, UsageAnswer(window=window, source=_SOURCE, error_type=failure or gone)
        slots = asyncio.Semaphore(self._at_once(len(found)))
        tasks = [asyncio.create_task(self._read(target, id_, slots)) for target, id_ in found.items()]
        try:
            for answered in asyncio.as_completed(tasks):
                yield await answered
        finally:
            await _cancel(tasks)

    def kills(self, target: UsageTarget) -> Kills | None:
        """Return what the daemon's events told of kills; None while they cannot be had, or before it was found."""
        since_ns, id_ = self._watch.since_ns, self._id_of(target)
        if since_ns is None or id_ is None:
            return None
        seen, container = self._watch.of(id_), self._containers.get(target)
        created_ns = container.created_ns if container is not None else 0
        return Kills(since_ns=max(since_ns, created_ns), count=seen.kills, main_killed=seen.main_killed or None)

    def forget(self, target: UsageTarget) -> None:
        """Let go of what is kept for a sandbox that has ended."""
        id_ = self._id_of(target)
        if id_ is not None:
            self._watch.forget(id_)
        self._containers.pop(target, None)

    async def close(self) -> None:
        """Close connections, and end the watch."""
        await _cancel([self._watching])
        await self._engine.close()

    def _id_of(self, target: UsageTarget) -> str | None:
        container = self._containers.get(target)
        if container is not None:
            return container.id
        return target.designator.id if is_whole_id(target.designator.id) else None

    async def _identify(self, targets: Iterable[UsageTarget]) -> tuple[ReadWindow, ErrorType | None]:
        """Look the targets up in the daemon's list; what it does not hold any more is known no longer."""
        answer = await self._engine.containers(SANDBOX_LABEL)
        listed = await _parsed(answer) if answer.error_type is None else None
        if listed is None:
            failure = answer.error_type or ErrorType.UNRECOGNIZED_FORMAT
            logger.warning(
                "the list of containers cannot be read (%s), so no usage is; `sandgauge doctor` says what to do",
                failure,
            )
            return answer.window, failure
        index = Index(listed)
        for target in targets:
            container = index.find(target)
            if container is None:
                self._containers.pop(target, None)
            else:
                self._containers[target] = container
        return answer.window, None

    def _at_once(self, count: int) -> int:
        version = self._engine.version
        is_old = version is not None and version.release is not None and version.release < SAMPLES_DIRECTLY
        return max(1, count) if is_old else _AT_ONCE

    async def _read(
        self, target: UsageTarget, container_id: str, slots: asyncio.Semaphore
    ) -> tuple[UsageTarget, UsageAnswer]:
        asked = self._clock.monotonic()
        async with slots:
            waited_s = self._clock.monotonic() - asked
            answer = await self._engine.stats(container_id)
        window = replace(answer.window, wait_s=answer.window.wait_s + waited_s)
        found = answer.error_type or parse_stats(answer.body, container_id)
        if isinstance(found, ErrorType):
            return target, UsageAnswer(window=window, source=_SOURCE, error_type=found)
        started_ns = self._watch.of(container_id).started_ns
        if started_ns is not None and started_ns > found.timestamp_ns:
            started_ns = None  # it was started again while the answer was on its way, which is of the life before
        observation = replace(found, started_ns=started_ns)
        return target, UsageAnswer(window=window, source=_SOURCE, observation=observation)


async def _parsed(answer: Answer) -> list[ListedContainer] | None:
    if len(answer.body) <= _LARGE_BYTES:
        return parse_list(answer.body)
    return await asyncio.to_thread(parse_list, answer.body)


async def _cancel(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
