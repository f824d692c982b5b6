"""Which way a sandbox's daemon is read: directly or through the control plane's proxy."""

import logging
import math

from sandgauge_poller.config import Deployment, ProxyUse
from sandgauge_poller.logs import same_fault
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import Answer
from sandgauge_poller.reading.opensandbox.client import ControlPlane
from sandgauge_poller.reading.opensandbox.direct import DirectConnections
from sandgauge_poller.reading.opensandbox.endpoints import EndpointPolicy, NotAllowed, Target
from sandgauge_poller.reading.opensandbox.proxied import ProxiedReads, say_daemon_refused
from sandgauge_poller.reading.opensandbox.routes import Route, Routes
from sandgauge_poller.reading.provider import SandboxState, StatusReading
from sandgauge_schemas.names import ErrorType

logger = logging.getLogger(__name__)

DIRECT_AGAIN_S = 60.0
"""How long a sandbox whose direct read failed is read through the proxy before the direct way is tried again."""

_UNREADABLE = {
    SandboxState.PAUSED: ErrorType.PAUSED,
    SandboxState.STOPPING: ErrorType.ENDED,
    SandboxState.TERMINATED: ErrorType.ENDED,
    SandboxState.FAILED: ErrorType.ENDED,
    SandboxState.NOT_FOUND: ErrorType.NOT_FOUND,
}
_THE_PROXY_WOULD_FAIL_TOO = {ErrorType.TIMEOUT, ErrorType.CONNECTION, ErrorType.NOT_FOUND, ErrorType.UNAUTHORIZED}


class DaemonReader:
    """One GET of a daemon's metrics by whichever way is allowed and answers."""

    def __init__(
        self,
        deployment: Deployment,
        control_plane: ControlPlane,
        connections: DirectConnections,
        *,
        clock: Clock,
    ) -> None:
        self._name = deployment.name
        self._proxy_use = deployment.use_server_proxy
        self._policy = EndpointPolicy(deployment.endpoint, deployment.allowed_endpoint_hosts)
        self._control_plane = control_plane
        self._connections = connections
        self._proxied = ProxiedReads(deployment, control_plane, clock=clock)
        self._routes = Routes()
        self._clock = clock

    async def read(self, sandbox_id: str) -> Answer:
        """Read once; what fails on the way there, such as asking for the endpoint, is the read's own failure."""
        asked = self._clock.monotonic()
        route = self._routes.of(sandbox_id)
        answer = None if self._prefers_proxy(route, asked) else await self._read_directly(sandbox_id, route, asked)
        return answer or await self._proxied.read(sandbox_id, route, asked=asked)

    def slots(self) -> int | None:
        """Return how many reads are carried at once; None while none needs the proxy for good."""
        share = 1.0 if self._proxy_use is ProxyUse.ALWAYS else self._routes.share_proxied_for_good()
        return math.ceil(self._proxied.slots / share) if share else None

    def forget(self, sandbox_id: str) -> None:
        """Let go of the way to a sandbox; its kept connection closes when it has been idle for a while."""
        self._routes.forget(sandbox_id)

    def _prefers_proxy(self, route: Route, now: float) -> bool:
        if self._proxy_use is not ProxyUse.AUTO:
            return self._proxy_use is ProxyUse.ALWAYS
        # After a network hiccup all sandboxes would queue for the proxy: those without a slot try directly again.
        return now < route.proxied_until and (route.proxied_until == math.inf or self._proxied.has_free_slot)

    async def _read_directly(self, sandbox_id: str, route: Route, asked: float) -> Answer | None:
        """Return None if the proxy is to be taken instead."""
        if route.suspect:
            status = await self._control_plane.read_status(sandbox_id)
            if (refusal := _refusal(status)) is not None:
                return Answer(window=status.window, error_type=refusal)
        if route.target is not None:
            answer = await self._connections.get_kept(route.target, asked=asked)
            if answer is not None:
                return self._judged(route, answer)
        named = await self._name_target(sandbox_id, route)
        if not isinstance(named, Target):
            return named
        return self._judged(route, await self._connections.get_new(named, asked=asked))

    async def _name_target(self, sandbox_id: str, route: Route) -> Target | Answer | None:
        """Ask the control plane anew; None if nothing may be called directly and the proxy will do."""
        answer = await self._control_plane.endpoint(sandbox_id)
        error_type = answer.error_type
        named = self._policy.resolve(answer.body, sandbox_id) if error_type is None else None
        if isinstance(named, Target):
            self._routes.claim(route, named)
            return named
        if self._proxy_use is ProxyUse.AUTO and error_type not in _THE_PROXY_WOULD_FAIL_TOO:
            if error_type is None:
                self._routes.proxy_for_good(sandbox_id, route)
            else:
                route.proxied_until = self._clock.monotonic() + DIRECT_AGAIN_S
            return None
        if error_type is None and named is None:
            error_type = ErrorType.UNRECOGNIZED_FORMAT
        elif error_type is None:
            error_type = ErrorType.ENDPOINT_NOT_ALLOWED
            self._say_not_allowed(named.host if isinstance(named, NotAllowed) else None)
        return Answer(window=answer.window, error_type=error_type, status=answer.status)

    def _judged(self, route: Route, answer: Answer) -> Answer:
        route.suspect = answer.error_type is not None
        if route.suspect:
            route.target = None
            route.proxied_until = self._clock.monotonic() + DIRECT_AGAIN_S
        if answer.error_type is ErrorType.UNAUTHORIZED:
            say_daemon_refused(self._name)
        return answer

    def _say_not_allowed(self, host: str | None) -> None:
        logger.warning(
            "deployment %s: an endpoint may not be called directly;"
            " add its host to allowed_endpoint_hosts, or set use_server_proxy: auto%s",
            self._name,
            f" (host {host})" if host else "",
            extra=same_fault(f"{self._name}: not allowed"),
        )


def _refusal(status: StatusReading) -> ErrorType | None:
    return status.error_type if status.state is None else _UNREADABLE.get(status.state)
