"""Metrics through the control plane's proxy, which is one pool of connections shared with all the trainer's traffic."""

import asyncio
import logging
from http import HTTPStatus

from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.bodies import parse_object
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import Answer
from sandgauge_poller.reading.opensandbox.answers import error_code
from sandgauge_poller.reading.opensandbox.client import ControlPlane
from sandgauge_poller.reading.opensandbox.endpoints import endpoint_headers
from sandgauge_poller.reading.opensandbox.routes import Route
from sandgauge_poller.reading.provider import ReadWindow
from sandgauge_schemas.names import ErrorType

logger = logging.getLogger(__name__)

_SECURE_ACCESS_MISSING = "MISSING_OR_INVALID_SECURE_ACCESS"


class ProxiedReads:
    """Reads that each hold one of the deployment's slots; none while the control plane is silent."""

    def __init__(self, deployment: Deployment, control_plane: ControlPlane, *, clock: Clock) -> None:
        self._name = deployment.name
        self.slots = deployment.max_concurrent_proxied_reads
        self._slots = asyncio.Semaphore(self.slots)
        self._probing = asyncio.Lock()
        self._control_plane = control_plane
        self._clock = clock

    @property
    def has_free_slot(self) -> bool:
        """Whether a read would start at once."""
        return not self._slots.locked()

    async def read(self, sandbox_id: str, route: Route, *, asked: float) -> Answer:
        """Read once; `asked` is when the question came up, in monotonic seconds."""
        async with self._slots:
            if self._control_plane.is_silent and not await self._answers_again(sandbox_id):
                now_ns = self._clock.now_ns()
                window = ReadWindow(now_ns, now_ns, self._clock.monotonic() - asked)
                return Answer(window=window, error_type=ErrorType.TIMEOUT)
            answer = await self._get(sandbox_id, route, asked)
            if answer.status == HTTPStatus.UNAUTHORIZED and error_code(answer.body) == _SECURE_ACCESS_MISSING:
                endpoint = await self._control_plane.proxy_endpoint(sandbox_id)
                route.proxied_headers = endpoint_headers(endpoint.body) or ()
                answer = await self._get(sandbox_id, route, asked)
        if answer.error_type is ErrorType.UNAUTHORIZED:
            self._say_who_refused(answer.body)
        return answer

    async def _get(self, sandbox_id: str, route: Route, asked: float) -> Answer:
        if route.proxied_url is None:
            route.proxied_url = self._control_plane.proxied_metrics_url(sandbox_id)
        return await self._control_plane.proxied_metrics(route.proxied_url, route.proxied_headers, asked=asked)

    async def _answers_again(self, sandbox_id: str) -> bool:
        """Ask a silent control plane one question at a time: a proxied call would stall it whole."""
        if self._probing.locked():
            return False
        async with self._probing:
            await self._control_plane.read_status(sandbox_id)
        return not self._control_plane.is_silent

    def _say_who_refused(self, body: bytes) -> None:
        # The daemon's own refusal has no code and says `error`. The sandbox can feign either: this only helps a reader.
        if "error" in (parse_object(body) or {}):
            say_daemon_refused(self._name)
        else:
            logger.warning("deployment %s: the control plane's proxy refused a read; check its api_key", self._name)


def say_daemon_refused(deployment: str) -> None:
    """Say that a daemon itself wants a token."""
    logger.warning(
        "deployment %s: the daemon of a sandbox refused a read with its own access token set;"
        " such a sandbox is not read",
        deployment,
    )
