"""Docker as a provider: each sandbox is a container of one daemon, and nobody submits anything in between."""

import asyncio
import logging
from dataclasses import replace
from http import HTTPStatus

from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.clock import SYSTEM_CLOCK, Clock
from sandgauge_poller.reading.docker.engine import Engine
from sandgauge_poller.reading.docker.inspect import Container, parse_container
from sandgauge_poller.reading.exchange import NO_ANSWER, Answer
from sandgauge_poller.reading.limits import RateLimit
from sandgauge_poller.reading.provider import (
    AllocationReading,
    LastAnswer,
    ReadWindow,
    SampleReading,
    SandboxState,
    StatusReading,
)
from sandgauge_schemas.names import DesignatorKind, ErrorType, HostKind, ResourceSource
from sandgauge_schemas.placement import Identity
from sandgauge_schemas.records import Allocation, ComponentAllocation

logger = logging.getLogger(__name__)

_SOURCE = ResourceSource.DOCKER_INSPECT
_COMPONENT = "sandbox"


class DockerProvider:
    """The `Provider` of one daemon; construct it in a running loop, and close it in the same.

    Gym's docker provider calls a sandbox by the name of its container; its id does as well.
    """

    def __init__(self, deployment: Deployment, engine: Engine, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._name = deployment.name
        self._scope = deployment.endpoint
        self._engine = engine
        self._clock = clock
        self._rate = RateLimit(deployment.max_requests_per_second, clock)
        self._last_answer: LastAnswer | None = None
        self._host: asyncio.Task[Identity | None] | None = None

    async def read_allocation(self, sandbox_id: str) -> AllocationReading:
        """Inspect the container: what it is held to, which it is, and on which machine."""
        window, container = await self._inspect(sandbox_id)
        if isinstance(container, ErrorType):
            return AllocationReading(window=window, source=_SOURCE, error_type=container)
        return AllocationReading(
            window=window,
            source=_SOURCE,
            error_type=None if container.limits else ErrorType.NO_SUPPORTED_QUANTITY,
            allocation=Allocation(
                components=(ComponentAllocation(name=_COMPONENT, limits=container.limits),),
                notes=tuple(sorted(container.notes)),
                designator=Identity(DesignatorKind.DOCKER_CONTAINER, self._scope, container.id),
                host=await self._read_host(),
            ),
            oom_killed=container.oom_killed,
            started_ns=container.started_ns,
        )

    async def read_status(self, sandbox_id: str) -> StatusReading:
        """Inspect the container for its state; when it is to end no daemon knows."""
        window, container = await self._inspect(sandbox_id)
        if container is ErrorType.NOT_FOUND:
            return StatusReading(window=window, state=SandboxState.NOT_FOUND)
        if isinstance(container, ErrorType):
            return StatusReading(window=window, state=None, error_type=container)
        return StatusReading(window=window, state=container.state)

    async def read_sample(self, sandbox_id: str) -> SampleReading:
        """Return that there is none: no daemon runs in the container, and usage has a source of its own."""
        del sandbox_id
        now_ns = self._clock.now_ns()
        return SampleReading(window=ReadWindow(now_ns, now_ns), source=_SOURCE, error_type=ErrorType.NO_READING)

    def read_slots(self) -> int | None:
        """Return None: nothing is read inside of containers."""

    def delay(self) -> float:
        """Return how long a question would wait for its turn, in seconds."""
        return self._rate.delay()

    def last_answer(self) -> LastAnswer | None:
        """Return how the daemon answered last; that it does not know a container is in order."""
        return self._last_answer

    def forget(self, sandbox_id: str) -> None:
        """Keep nothing of a sandbox in any case."""

    async def close(self) -> None:
        """Close the connections."""
        if self._host is not None:
            self._host.cancel()
        await self._engine.close()

    async def _inspect(self, sandbox_id: str) -> tuple[ReadWindow, Container | ErrorType]:
        asked = self._clock.monotonic()
        await self._rate.wait()
        waited_s = self._clock.monotonic() - asked
        answer = await self._engine.inspect(sandbox_id)
        outcome = _read(answer, sandbox_id)
        self._remember(outcome if isinstance(outcome, ErrorType) else None)
        return replace(answer.window, wait_s=answer.window.wait_s + waited_s), outcome

    def _remember(self, error_type: ErrorType | None) -> None:
        known = None if error_type is ErrorType.NOT_FOUND else error_type
        self._last_answer = LastAnswer(self._clock.monotonic(), known)
        if known is ErrorType.UNAUTHORIZED:
            logger.warning("deployment %s: the poller may not inspect containers; let it, or the proxy", self._name)
        elif known in NO_ANSWER:
            logger.warning(
                "deployment %s: Docker gives no answer (%s); check that it runs, its endpoint, and that the poller's"
                " user may open the socket",
                self._name,
                known.value,
            )

    async def _read_host(self) -> Identity | None:
        """Return the daemon's machine, asked for once; while nothing answers it is asked for again."""
        if self._host is None:
            self._host = asyncio.create_task(self._ask_host())
        return await asyncio.shield(self._host)

    async def _ask_host(self) -> Identity | None:
        answer = await self._engine.info()
        if answer.error_type in NO_ANSWER:
            self._host = None
        name = (parse_object(answer.body) or {}).get("Name") if answer.error_type is None else None
        return Identity(HostKind.DOCKER_HOST, self._scope, name) if isinstance(name, str) and name else None


def _read(answer: Answer, sandbox_id: str) -> Container | ErrorType:
    if answer.status == HTTPStatus.NOT_FOUND:
        return ErrorType.NOT_FOUND if _is_unknown(answer.body) else ErrorType.HTTP_ERROR
    if answer.error_type is not None:
        return answer.error_type
    container = parse_container(answer.body)
    if container is None:
        return ErrorType.UNRECOGNIZED_FORMAT
    return container if container.is_called(sandbox_id) else ErrorType.NOT_FOUND


def _is_unknown(body: bytes) -> bool:
    """Tell whether Docker says that it has no such container; a proxy's 404 is no such word."""
    message = (parse_object(body) or {}).get("message")
    return isinstance(message, str) and message.lower().startswith("no such container")
