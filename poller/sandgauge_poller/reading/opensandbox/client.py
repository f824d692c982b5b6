"""One control plane: GET sandbox, inspect, endpoints, and metrics through its proxy."""

import logging
from urllib.parse import quote

from yarl import URL

from sandgauge_poller.config import Deployment
from sandgauge_poller.reading.clock import Clock
from sandgauge_poller.reading.exchange import NO_ANSWER, Answer, Bounds
from sandgauge_poller.reading.limits import RateLimit
from sandgauge_poller.reading.opensandbox.answers import is_not_found, parse_status
from sandgauge_poller.reading.opensandbox.endpoints import EXECD_PORT
from sandgauge_poller.reading.opensandbox.session import open_session
from sandgauge_poller.reading.provider import LastAnswer, SandboxState, StatusReading
from sandgauge_schemas.names import ErrorType

logger = logging.getLogger(__name__)

MAX_METRICS_BYTES = 64 * 1024
_MAX_ANSWER_BYTES = 1024**2
API_KEY_HEADER = "OPEN-SANDBOX-API-KEY"
_KEEPALIVE_S = 15.0


class ControlPlane:
    """Bounded questions to one control plane; the key goes to it alone, since this session asks nobody else.

    Its own routes share a rate; metrics through its proxy do not count, they need a slot that the caller holds.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        timeout_s: float,
        metrics_timeout_s: float,
        clock: Clock,
    ) -> None:
        key = deployment.api_key.get_secret_value()
        self._name = deployment.name
        self._base = f"{deployment.endpoint}/v1/sandboxes/"
        self._rate = RateLimit(deployment.max_requests_per_second, clock)
        self._bounds = Bounds(timeout_s, _MAX_ANSWER_BYTES)
        self._metrics_bounds = Bounds(metrics_timeout_s, MAX_METRICS_BYTES)
        self._clock = clock
        self._last_answer: LastAnswer | None = None
        headers = {API_KEY_HEADER: key} if key else {}
        self._session = open_session(deployment.tls, clock=clock, keepalive_s=_KEEPALIVE_S, headers=headers)

    @property
    def is_silent(self) -> bool:
        """Whether its last answer did not come in time: if its backend is frozen, a proxied call stalls it whole."""
        return self._last_answer is not None and self._last_answer.error_type is ErrorType.TIMEOUT

    @property
    def last_answer(self) -> LastAnswer | None:
        """How it answered last on routes of its own; that it does not know a sandbox is in order."""
        return self._last_answer

    def delay(self) -> float:
        """Return how long a question on its own routes would wait for its turn now, in seconds."""
        return self._rate.delay()

    async def read_status(self, sandbox_id: str) -> StatusReading:
        """Ask for the sandbox itself, which alone decides whether it still is."""
        answer = await self._ask(sandbox_id)
        if is_not_found(answer.status, answer.body):
            return StatusReading(window=answer.window, state=SandboxState.NOT_FOUND)
        if answer.error_type is not None:
            return StatusReading(window=answer.window, state=None, error_type=answer.error_type)
        status = parse_status(answer.body)
        if status is None:
            return StatusReading(window=answer.window, state=None, error_type=ErrorType.UNRECOGNIZED_FORMAT)
        return StatusReading(window=answer.window, state=status[0], expires_at_ns=status[1])

    async def inspect(self, sandbox_id: str) -> Answer:
        """Ask for the inspect text."""
        return _with_not_found(await self._ask(sandbox_id, "/diagnostics/inspect"))

    async def endpoint(self, sandbox_id: str) -> Answer:
        """Ask where the sandbox's daemon is reached directly."""
        return _with_not_found(await self._ask(sandbox_id, f"/endpoints/{EXECD_PORT}"))

    async def proxy_endpoint(self, sandbox_id: str) -> Answer:
        """Ask where and with which headers the daemon is reached through the control plane."""
        return _with_not_found(await self._ask(sandbox_id, f"/endpoints/{EXECD_PORT}?use_server_proxy=true"))

    def proxied_metrics_url(self, sandbox_id: str) -> URL:
        """Return where this control plane passes a daemon's metrics on."""
        return self._url(sandbox_id, f"/proxy/{EXECD_PORT}/metrics")

    async def proxied_metrics(self, url: URL, headers: tuple[tuple[str, str], ...], *, asked: float) -> Answer:
        """Read a daemon through the proxy; whatever comes, 404 included, may be the sandbox's own word."""
        return await self._session.get(url, self._metrics_bounds, asked=asked, headers=headers)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _ask(self, sandbox_id: str, rest: str = "") -> Answer:
        asked = self._clock.monotonic()
        await self._rate.wait()
        answer = await self._session.get(self._url(sandbox_id, rest), self._bounds, asked=asked)
        error_type = None if is_not_found(answer.status, answer.body) else answer.error_type
        self._last_answer = LastAnswer(self._clock.monotonic(), error_type)
        if answer.error_type is ErrorType.UNAUTHORIZED:
            logger.warning("deployment %s: the control plane refused the poller; check its api_key", self._name)
        elif answer.error_type in NO_ANSWER:
            logger.warning(
                "deployment %s: the control plane gives no answer (%s); check that it is up, and its endpoint",
                self._name,
                answer.error_type.value,
            )
        return answer

    def _url(self, sandbox_id: str, rest: str) -> URL:
        return URL(f"{self._base}{quote(sandbox_id, safe='')}{rest}", encoded=True)


def _with_not_found(answer: Answer) -> Answer:
    if is_not_found(answer.status, answer.body):
        return Answer(window=answer.window, error_type=ErrorType.NOT_FOUND, status=answer.status)
    return answer
