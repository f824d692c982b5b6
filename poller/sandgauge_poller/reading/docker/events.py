"""Kills for memory and beginnings of lives, from the daemon's own stream of events.

An event is the only thing that tells of each kill, those of children included: the flag of an inspect answer says that
there was one, in one life, and on daemons before version 24 only of a main process (all measured).
"""

import asyncio
import logging
from dataclasses import dataclass

from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.exchange import StreamError
from sandgauge_poller.tracking.bounded import BoundedDict
from sandgauge_schemas.names import ErrorType

logger = logging.getLogger(__name__)

FILTERS = {"type": ["container"], "event": ["oom", "start", "die"]}
"""The events that are followed."""

_KILLED = "137"
"""Exit code of what was killed: 128, and 9 for the signal."""

_TOGETHER_NS = 2 * 10**9
"""So close to each other a kill for memory and the end of a container are one."""

_TOLD_AGAIN_NS = 10**9
"""From the time that a stream is asked from on the daemon tells again; to the second, if it reads no fractions."""

_MOST_CONTAINERS = 100_000
_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
_AFRESH_S = 600.0
"""How long one stream is followed: where a network lost it without a word, nothing else would tell."""


@dataclass(slots=True)
class ContainerEvents:
    """What was seen of one container since the watch began; times in ns since the epoch on the daemon's clock."""

    kills: int = 0
    main_killed: bool = False
    started_ns: int | None = None
    _killed_ns: int = 0
    _died_ns: int = 0

    def take(self, action: str, at_ns: int, exit_code: str | None) -> None:
        """Take one event."""
        if action == "start":
            self.started_ns, self._killed_ns, self._died_ns = at_ns, 0, 0
        elif action == "oom":
            self.kills, self._killed_ns = self.kills + 1, at_ns
        elif exit_code == _KILLED:
            self._died_ns = at_ns
        else:
            return
        if self._killed_ns and self._died_ns and abs(self._killed_ns - self._died_ns) <= _TOGETHER_NS:
            self.main_killed = True


class EventWatch:
    """Follow the daemon's events for as long as `run` does; after a break it catches up with what was missed.

    The daemon keeps its latest 256 events (documented); what is older by then is lost.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._seen: BoundedDict[str, ContainerEvents] = BoundedDict(_MOST_CONTAINERS)
        self._last_ns = 0
        """When the latest event was, on the daemon's clock: it may differ from the poller's, and be set back."""
        self.since_ns: int | None = None
        """Since when nothing is missed, ns since the epoch; None while events could never be had."""

    def of(self, container_id: str) -> ContainerEvents:
        """Return what was seen of a container so far."""
        return self._seen.get(container_id) or ContainerEvents()

    def forget(self, container_id: str) -> None:
        """Let go of a container that is over."""
        self._seen.pop(container_id)

    async def run(self) -> None:
        """Follow the stream, for ever; ends by cancellation."""
        began_ns = self._clock.now_ns()
        retry_s, said = _RETRY_S, None
        while True:
            began = self._clock.monotonic()
            error_type = await self._follow(began_ns)
            if self._clock.monotonic() - began > _LONGEST_RETRY_S:
                retry_s = _RETRY_S
            if error_type is ErrorType.UNAUTHORIZED and said is not error_type:
                logger.warning("the Docker daemon's events may not be read, so no out-of-memory kill is counted")
            said = error_type
            await self._clock.sleep(retry_s)
            retry_s = min(2 * retry_s, _LONGEST_RETRY_S)

    async def _follow(self, began_ns: int) -> ErrorType | None:
        told_ns = self._last_ns
        try:
            async with self._engine.events(FILTERS, told_ns or began_ns) as events:
                self.since_ns = self.since_ns or began_ns
                async with asyncio.timeout(_AFRESH_S):
                    async for event in events:
                        self._take(event, told_ns)
        except StreamError as error:
            return error.error_type
        return None

    def _take(self, event: dict[str, object], told_ns: int) -> None:
        at_ns, action, actor = event.get("timeNano"), event.get("Action"), event.get("Actor")
        if not (isinstance(at_ns, int) and isinstance(action, str) and isinstance(actor, dict)):
            return
        if 0 <= told_ns - at_ns < _TOLD_AGAIN_NS:
            return  # it came before the stream broke off
        self._last_ns = at_ns
        container_id, attributes = actor.get("ID"), actor.get("Attributes")
        if isinstance(container_id, str):
            exit_code = attributes.get("exitCode") if isinstance(attributes, dict) else None
            seen = self._seen.get(container_id)
            if seen is None:
                seen = self._seen[container_id] = ContainerEvents()
            seen.take(action, at_ns, exit_code)
